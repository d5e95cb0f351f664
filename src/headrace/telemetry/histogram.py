"""Histograms for Prometheus, cheap enough for every request.

times = Histogram()
times.observe(0.004)
times.buckets()      # [("0.0005", 0), ..., ("0.005", 1), ..., ("+Inf", 1)]
"""

from bisect import bisect_left
from collections.abc import Sequence
from threading import Lock
from typing import Final

SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the buckets for times: half a millisecond to ten seconds."""


class Histogram:
    """Counts values in buckets. One thread observes.

    Attributes:
        total: the sum of all values.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, weight: int = 1) -> None:
        """Count a value; with a weight for values of which it is a sample."""
        self._counts[bisect_left(self._bounds, value)] += weight
        self.total += value * weight

    def buckets(self) -> list[tuple[str, float]]:
        """Return each upper bound, and how many values lie at or below it."""
        below, rows = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            below += count
            rows.append((bound, float(below)))
        return rows


class SharedHistogram(Histogram):
    """A histogram that any thread observes."""

    __slots__ = ("_lock",)

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        super().__init__(bounds)
        self._lock = Lock()

    def observe(self, value: float, weight: int = 1) -> None:
        with self._lock:
            super().observe(value, weight)
