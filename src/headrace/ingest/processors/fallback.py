"""The base class of processors that skip a failed sink for a while."""

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
    """Uses the first sink of `order` that works.

    To implement: `order`. A sink that fails is skipped for a while, twice as long each time, up to
    `longest_seconds`; 0 means that it is never skipped. Once it delivers, it is used again.
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
        self._skipped_until = dict.fromkeys((sink.name for sink in sinks), float("-inf"))

    @abstractmethod
    def order(self) -> Sequence[Sink]:
        """Return all sinks, in the order in which to try them this time."""

    def process(self) -> Status:
        last: Exception | None = None
        for sink in self.order():
            if self._skipped_until[sink.name] > self._clock():
                continue
            try:
                status = sink.process()
            except Exception as error:  # noqa: BLE001 - another sink may work
                last = error
                self._skip(sink, error)
                continue
            self._failures[sink.name] = 0
            return status
        raise DeliveryFailed(f"no sink of group {self.name} works at the moment") from last

    def _skip(self, sink: Sink, error: Exception) -> None:
        failures = self._failures[sink.name] = self._failures[sink.name] + 1
        doubled = _FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 30)
        pause = min(doubled, self._longest_seconds)
        self._skipped_until[sink.name] = self._clock() + pause
        _log.warning("sink_skipped", sink=sink.name, pause_s=pause, reason=str(error))
