"""The processor that uses the working sink with the highest priority."""

import time
from collections.abc import Callable, Sequence

from headrace.ingest.processors.fallback import FallbackSinkProcessor
from headrace.ingest.settings import Settings, number, prefix
from headrace.ingest.sink import Sink


class FailoverSinkProcessor(FallbackSinkProcessor):
    """A sink that fails is skipped for a while, twice as long each time, up to `maxpenalty`. Then
    it is tried again; once it delivers, it is used by its priority again."""

    SETTINGS = (
        prefix("priority", "A number per sink; the highest goes first."),
        number("maxpenalty", "Longest time to skip a failed sink, in milliseconds.", 30_000),
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
    """Return the priorities of all sinks. Sinks without one come last, as in Flume."""
    names = {sink.name for sink in sinks}
    priorities: dict[str, int] = {}
    for name, written in settings.below("priority").items():
        key = f"priority.{name}"
        if name not in names:
            raise settings.wrong(key, f"{key}: the group has no sink {name}")
        try:
            priorities[name] = int(written)
        except ValueError:
            raise settings.wrong(key, f"{key} is {written!r}: write a whole number") from None
    lowest = min(priorities.values(), default=0)
    for rank, sink in enumerate(sinks, 1):
        priorities.setdefault(sink.name, lowest - rank)
    return priorities
