"""The sinks of a group in turn."""

import random
import time
from collections.abc import Callable, Sequence

import structlog

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.sink import Sink, Status
from headrace.ingest.sink_processor import SinkProcessor

_log = structlog.get_logger(__name__)
_FIRST_PAUSE_SECONDS = 1.0


class LoadBalanceSinkProcessor(SinkProcessor):
    """Round robin or random. A sink that fails passes its turn to the next; with `backoff` it also
    sits out, twice as long each time, up to `selector.maxTimeOut`."""

    SETTINGS = (
        text("selector", "How to choose.", "round_robin", choices=("round_robin", "random")),
        flag("backoff", "Leave out a sink that failed for a while.", False),
        number("selector.maxTimeOut", "Longest time to leave it out, in milliseconds.", 30_000),
    )

    def __init__(
        self,
        name: str,
        settings: Settings,
        sinks: Sequence[Sink],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name, settings, sinks)
        self._clock = clock
        self._random = settings.text("selector") == "random"
        self._backoff = settings.flag("backoff")
        self._longest = settings.number("selector.maxTimeOut") / 1000
        self._next = 0
        self._failures = dict.fromkeys((sink.name for sink in sinks), 0)
        self._back_at = dict.fromkeys((sink.name for sink in sinks), 0.0)

    def process(self) -> Status:
        last: Exception | None = None
        for sink in self._order():
            if self._back_at[sink.name] > self._clock():
                continue
            try:
                status = sink.process()
            except Exception as error:  # noqa: BLE001 - whatever it was, another sink may do it
                last = error
                self._failed(sink, error)
                continue
            self._failures[sink.name] = 0
            return status
        raise DeliveryFailed(f"no sink of group {self.name} works at the moment") from last

    def _order(self) -> list[Sink]:
        sinks = list(self.sinks)
        if self._random:
            random.shuffle(sinks)
            return sinks
        start, self._next = self._next, (self._next + 1) % len(sinks)
        return sinks[start:] + sinks[:start]

    def _failed(self, sink: Sink, error: Exception) -> None:
        _log.warning("sink_passed_over", sink=sink.name, reason=str(error))
        if self._backoff:
            failures = self._failures[sink.name] = self._failures[sink.name] + 1
            pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 30), self._longest)
            self._back_at[sink.name] = self._clock() + pause
