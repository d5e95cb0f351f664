"""What the processors that know a next sink have in common: turns, and sitting out."""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import structlog

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.settings import Settings
from headrace.ingest.sink import Sink, Status
from headrace.ingest.sink_processor import SinkProcessor

_log = structlog.get_logger(__name__)
_FIRST_PAUSE_SECONDS = 1.0


class FallbackSinkProcessor(SinkProcessor):
    """Gives the turn to the first sink of `order` that takes it.

    To implement: `order`. A sink that fails sits out, twice as long each time, up to
    `longest_seconds`, which 0 switches off; once it delivers it has its place back.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        sinks: Sequence[Sink],
        longest_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(name, settings, sinks)
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._failures = dict.fromkeys((sink.name for sink in sinks), 0)
        self._back_at = dict.fromkeys((sink.name for sink in sinks), float("-inf"))

    @abstractmethod
    def order(self) -> Sequence[Sink]:
        """All sinks, in the order in which they are asked this time."""

    def process(self) -> Status:
        last: Exception | None = None
        for sink in self.order():
            if self._back_at[sink.name] > self._clock():
                continue
            try:
                status = sink.process()
            except Exception as error:  # noqa: BLE001 - whatever it was, another sink may do it
                last = error
                self._sit_out(sink, error)
                continue
            self._failures[sink.name] = 0
            return status
        raise DeliveryFailed(f"no sink of group {self.name} works at the moment") from last

    def _sit_out(self, sink: Sink, error: Exception) -> None:
        failures = self._failures[sink.name] = self._failures[sink.name] + 1
        doubled = _FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 30)
        pause = min(doubled, self._longest_seconds)
        self._back_at[sink.name] = self._clock() + pause
        _log.warning("sink_passed_over", sink=sink.name, pause_s=pause, reason=str(error))
