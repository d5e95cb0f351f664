"""The figures of a running flow: a live table on a terminal, a line per batch elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli.flow.table import line_of, table_of
from headrace.flow.monitoring.metrics import FlowFigures

Watch = Callable[[FlowFigures], None]


@contextmanager
def watching() -> Iterator[tuple[Watch, bool]]:
    """Yield the function to call with figures, and whether it draws on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(), False
        return
    with Live(Text(""), console=console, auto_refresh=False) as live:
        yield lambda figures: live.update(table_of(figures), refresh=True), True


class _Lines:
    """Prints a line per batch that had records."""

    def __init__(self) -> None:
        self._last: int | None = None

    def __call__(self, figures: FlowFigures) -> None:
        if figures.batch is not None and figures.batch != self._last and figures.records:
            print(line_of(figures), flush=True)
        self._last = figures.batch
