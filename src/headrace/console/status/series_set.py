"""Numbers over the last minutes, for charts and rates."""

from collections import deque
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

POINTS: Final = 300
# Beyond this many numbers at once, new ones have no history: a bound on memory.
MOST_SERIES: Final = 50_000
_RATE_POINTS: Final = 6


class SeriesSet(Generic[K]):
    """Many numbers, measured at the same times. A number that is missing from a measurement loses
    its history.

    Threads: one adds, others read.
    """

    def __init__(self, points: int = POINTS) -> None:
        self._points = points
        self._times: deque[int] = deque(maxlen=points)
        self._values: dict[K, deque[int]] = {}
        self._lock = Lock()

    def add(self, at_ms: int, values: Mapping[K, int]) -> None:
        """Add one measurement of all numbers."""
        with self._lock:
            self._times.append(at_ms)
            for key in self._values.keys() - values.keys():
                del self._values[key]
            for key, value in values.items():
                series = self._values.get(key)
                if series is None:
                    if len(self._values) >= MOST_SERIES:
                        continue
                    series = self._values[key] = deque(maxlen=self._points)
                series.append(value)

    def keys(self) -> list[K]:
        with self._lock:
            return list(self._values)

    def values(self, key: K) -> tuple[list[int], list[int]]:
        """Return the times in milliseconds and the values, oldest first."""
        with self._lock:
            series = list(self._values.get(key, ()))
            return list(self._times)[len(self._times) - len(series) :], series

    def rates(self, key: K) -> tuple[list[int], list[float]]:
        """Return how much a counter grew per second between every two measurements. A counter that
        went back was reset; its growth counts as 0."""
        times, values = self.values(key)
        rates = []
        for number in range(1, len(values)):
            seconds = max((times[number] - times[number - 1]) / 1000, 0.001)
            rates.append(max(values[number] - values[number - 1], 0) / seconds)
        return times[1:], rates

    def rate(self, key: K) -> float:
        """Return the growth per second over the last few measurements."""
        with self._lock:
            series = self._values.get(key)
            if series is None or len(series) < 2:
                return 0.0
            steps = min(len(series), _RATE_POINTS) - 1
            seconds = max((self._times[-1] - self._times[-1 - steps]) / 1000, 0.001)
            return max(series[-1] - series[-1 - steps], 0) / seconds
