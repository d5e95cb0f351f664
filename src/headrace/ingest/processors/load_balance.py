"""The processor that uses the sinks of a group in turn."""

import random
import time
from collections.abc import Callable, Sequence

from headrace.ingest.processors.fallback import FallbackSinkProcessor
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.sink import Sink


class LoadBalanceSinkProcessor(FallbackSinkProcessor):
    """Uses sinks round robin or at random. If a sink fails, the next one is used; with `backoff`
    the failed one is skipped for a while, twice as long each time, up to `selector.maxTimeOut`."""

    SETTINGS = (
        text("selector", "How to choose.", "round_robin", choices=("round_robin", "random")),
        flag("backoff", "Skip a failed sink for a while.", False),
        number("selector.maxTimeOut", "Longest time to skip it, in milliseconds.", 30_000),
    )

    def __init__(
        self,
        name: str,
        settings: Settings,
        sinks: Sequence[Sink],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        longest = settings.number("selector.maxTimeOut") if settings.flag("backoff") else 0
        super().__init__(name, settings, sinks, longest / 1000, clock)
        self._random = settings.text("selector") == "random"
        self._next = 0

    def order(self) -> list[Sink]:
        sinks = list(self.sinks)
        if self._random:
            random.shuffle(sinks)
            return sinks
        start, self._next = self._next, (self._next + 1) % len(sinks)
        return sinks[start:] + sinks[:start]
