"""What a flow does, while it runs: a line that changes on a terminal, a line a batch elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli.flow_pulse import Pulse


@contextmanager
def watching(name: str) -> Iterator[tuple[Callable[[Pulse], None], bool]]:
    """What to call with every pulse, and whether there is a terminal to keep clean."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(), False
        return
    with Live(Text(""), console=console, auto_refresh=False, transient=True) as live:
        yield lambda pulse: live.update(Text(f"{name}: {pulse.line}"), refresh=True), True


class _Lines:
    def __init__(self) -> None:
        self._last: int | None = None

    def __call__(self, pulse: Pulse) -> None:
        if pulse.batch is not None and pulse.batch != self._last and pulse.rows:
            print(pulse.line, flush=True)
        self._last = pulse.batch
