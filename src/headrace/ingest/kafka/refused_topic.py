"""Topics that headers of events name and that the cluster refuses."""

import time
from collections.abc import Callable, Iterable
from typing import Final

# A right to write may be granted later.
_SECONDS: Final = 60.0
_MOST: Final = 1000


class RefusedTopics:
    """Names that are not asked for again for a minute. Senders of events choose them, so their
    number is bounded: beyond it, all but those that are added are forgotten and asked for again.
    Those that are added stay, however many a batch has: it cannot be written without them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def __contains__(self, name: object) -> bool:
        return bool(self._until) and self._until.get(str(name), 0.0) > self._clock()

    def add(self, names: Iterable[str]) -> None:
        added = dict.fromkeys(names, self._clock() + _SECONDS)
        if len(self._until.keys() | added.keys()) > _MOST:
            self._until.clear()
        self._until.update(added)
