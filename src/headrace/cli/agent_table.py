"""A live table of an agent's counters in the terminal."""

import time
from collections.abc import Callable
from threading import Event as Signal
from threading import Thread
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from headrace.ingest.agent.assembly import Assembly

_PERIOD_SECONDS = 1.0


class AgentTable:
    """Shows a row per source, channel and sink: events, events per second, and how full it is.

    The table is redrawn once per second on standard error; log lines scroll by above it.
    """

    def __init__(self, assembly: Callable[[], Assembly]) -> None:
        self._assembly = assembly
        self._stopping = Signal()
        self._thread = Thread(target=self._run, name="live-table", daemon=True)
        self._before: dict[str, int] = {}
        self._at = time.monotonic()

    def __enter__(self) -> "AgentTable":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with Live(self.table(), console=Console(stderr=True), auto_refresh=False) as live:
            while not self._stopping.wait(_PERIOD_SECONDS):
                live.update(self.table(), refresh=True)

    def table(self) -> Table:
        now = time.monotonic()
        seconds, self._at = max(now - self._at, 1e-9), now
        table = Table("component", "events", "events/s", "fill", box=None)
        for name, count, fill in _rows(self._assembly()):
            before = self._before.get(name, count)
            if count < before:  # a reload has replaced the component
                before = 0
            rate = (count - before) / seconds
            self._before[name] = count
            table.add_row(name, f"{count:,}", f"{rate:,.0f}", fill)
        return table


def _rows(assembly: Assembly) -> list[tuple[str, int, str]]:
    rows = [
        (f"source {name}", source.counters["EventAcceptedCount"], "")
        for name, source in assembly.sources.items()
    ]
    rows += [
        (
            f"channel {name}",
            channel.counters["EventTakeSuccessCount"],
            f"{channel.size:,} of {channel.capacity:,}",
        )
        for name, channel in assembly.channels.items()
    ]
    rows += [
        (f"sink {name}", sink.counters["EventDrainSuccessCount"], "")
        for name, sink in assembly.sinks.items()
    ]
    return rows
