"""What components counted over the windows of Storm's UI: ten minutes, three hours, a day.

Flows report totals since their start. The growth of a window is the total of now without the one of
the window's beginning. As in Storm a window has twenty buckets: only so many totals are kept of it,
and it may be a bucket too short.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Final, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

WINDOWS: Final = (600, 10_800, 86_400)
"""The windows, in seconds."""

_BUCKETS: Final = 20


class Counts(NamedTuple):
    """Tuples of a component."""

    executed: int = 0
    emitted: int = 0
    failed: int = 0

    def since(self, before: "Counts") -> "Counts":
        """Return the growth; a counter that went back began again."""
        if any(now < then for now, then in zip(self, before, strict=True)):
            return self
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


class WindowCounts(Generic[K]):
    """The totals of components, and those at the beginnings of buckets.

    Threads: one adds, others read.
    """

    def __init__(self) -> None:
        self._now: tuple[int, Mapping[K, Counts]] = (0, {})
        self._kept: dict[int, deque[tuple[int, Mapping[K, Counts]]]] = {
            window: deque(maxlen=_BUCKETS + 1) for window in WINDOWS
        }
        self._lock = Lock()

    def add(self, at_ms: int, totals: Mapping[K, Counts]) -> None:
        """Add the totals of all components at a time."""
        with self._lock:
            self._now = at_ms, dict(totals)
            for window, kept in self._kept.items():
                if not kept or at_ms - kept[-1][0] >= window * 1000 // _BUCKETS:
                    kept.append(self._now)

    def totals(self) -> Mapping[K, Counts]:
        """Return the newest totals of all components."""
        with self._lock:
            return self._now[1]

    def within(self, key: K, window: int) -> Counts:
        """Return the growth over one of the windows, or since the first totals if that is less."""
        with self._lock:
            at_ms, totals = self._now
            begin_ms = at_ms - window * 1000
            kept = self._kept[window]
            before = next((each for at, each in kept if at >= begin_ms), totals)
            return totals.get(key, Counts()).since(before.get(key, Counts()))
