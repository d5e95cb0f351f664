"""The sink with the highest priority that works."""

import time
from collections.abc import Callable, Sequence

from headrace.ingest.processors.fallback import FallbackSinkProcessor
from headrace.ingest.settings import Settings, number, prefix
from headrace.ingest.sink import Sink


class FailoverSinkProcessor(FallbackSinkProcessor):
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
        super().__init__(name, settings, sinks, settings.number("maxpenalty") / 1000, clock)
        priorities = _priorities(settings, sinks)
        self._order = sorted(sinks, key=lambda sink: -priorities[sink.name])

    def order(self) -> list[Sink]:
        return self._order


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
