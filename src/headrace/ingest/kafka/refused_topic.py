"""Topics that headers of events name and that the cluster refuses."""

import time
from collections.abc import Callable, Iterable
from typing import Final

# A right to write may be granted later.
_SECONDS: Final = 60.0
_MOST: Final = 1000


class RefusedTopics:
    """Names that are not asked for again until none has been added for a minute: some are found
    only one by one, each by a write that fails, and a batch with many must come to an end.

    Senders of events choose the names, so their number is bounded: beyond it, all but those that
    are added are forgotten. Those stay, however many: their batch cannot be written otherwise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names: set[str] = set()
        self._until = 0.0

    def __contains__(self, name: object) -> bool:
        return name in self._names and self._clock() < self._until

    def add(self, names: Iterable[str]) -> None:
        added, now = set(names), self._clock()
        if now < self._until and len(self._names | added) <= _MOST:
            added |= self._names
        self._names, self._until = added, now + _SECONDS
