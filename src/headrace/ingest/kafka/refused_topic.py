"""Topics that headers of events name and that the cluster refuses."""

import time
from collections.abc import Callable, Iterable
from typing import Final

# A right to write may be granted later.
_SECONDS: Final = 60.0
_MOST: Final = 1000


class RefusedTopics:
    """Names that are not asked for again for a minute. Senders of events choose them, so their
    number is bounded: beyond it, all are forgotten and asked for again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def __contains__(self, name: object) -> bool:
        return bool(self._until) and self._until.get(str(name), 0.0) > self._clock()

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if len(self._until) >= _MOST:
                self._until.clear()
            self._until[name] = self._clock() + _SECONDS
