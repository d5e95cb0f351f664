"""The sink with the highest priority that works."""

import time
from collections.abc import Callable, Sequence

import structlog

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.settings import Settings, number, prefix
from headrace.ingest.sink import Sink, Status
from headrace.ingest.sink_processor import SinkProcessor

_log = structlog.get_logger(__name__)
_FIRST_PENALTY_SECONDS = 1.0


class FailoverSinkProcessor(SinkProcessor):
    """A sink that fails sits out, twice as long each time, up to `maxpenalty`; then it is tried
    again, and once it delivers it has its place back."""

    SETTINGS = (
        prefix("priority", "A number for each sink; the highest goes first."),
        number("maxpenalty", "Longest time to sit out, in milliseconds.", 30_000),
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
        self._longest = settings.number("maxpenalty") / 1000
        priorities = _priorities(settings, sinks)
        self._order = sorted(sinks, key=lambda sink: -priorities[sink.name])
        self._failures = dict.fromkeys((sink.name for sink in sinks), 0)
        self._back_at = dict.fromkeys((sink.name for sink in sinks), 0.0)

    def process(self) -> Status:
        last: Exception | None = None
        for sink in self._order:
            if self._back_at[sink.name] > self._clock():
                continue
            try:
                status = sink.process()
            except Exception as error:  # noqa: BLE001 - whatever it was, another sink may do it
                last = error
                self._punish(sink, error)
                continue
            self._failures[sink.name] = 0
            return status
        raise DeliveryFailed(f"no sink of group {self.name} works at the moment") from last

    def _punish(self, sink: Sink, error: Exception) -> None:
        failures = self._failures[sink.name] = self._failures[sink.name] + 1
        penalty = min(_FIRST_PENALTY_SECONDS * 2 ** min(failures - 1, 30), self._longest)
        self._back_at[sink.name] = self._clock() + penalty
        _log.warning("sink_failed_over", sink=sink.name, pause_s=penalty, reason=str(error))


def _priorities(settings: Settings, sinks: Sequence[Sink]) -> dict[str, int]:
    """Those written; a sink without one comes after all that have one, as in Flume."""
    names = {sink.name for sink in sinks}
    found: dict[str, int] = {}
    for name, written in settings.below("priority").items():
        key = f"priority.{name}"
        if name not in names:
            raise settings.wrong(key, f"{key}: the group has no sink {name}")
        try:
            found[name] = int(written)
        except ValueError:
            raise settings.wrong(key, f"{key} is {written!r}: write a whole number") from None
    lowest = min(found.values(), default=0)
    for number_back, sink in enumerate(sinks, 1):
        found.setdefault(sink.name, lowest - number_back)
    return found
