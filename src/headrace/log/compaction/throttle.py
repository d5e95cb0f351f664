"""Holds background work to a rate of bytes per second."""

from collections.abc import Callable

from headrace.model.clock import Clock
from headrace.model.error import InvalidArgument

# Shorter sleeps cost more than they gain.
_SHORTEST_SLEEP_MS = 10


class Throttle:
    """Sleeps as long as the bytes read and written so far are ahead of the rate.

    Time that passes without work earns nothing: after a rest the rate holds at once, so that a
    compaction never starts with a burst. One thread.
    """

    def __init__(
        self, bytes_per_second: float, clock: Clock, sleep: Callable[[float], object]
    ) -> None:
        """`sleep` takes seconds; `Event.wait` lets a stop cut it short."""
        if bytes_per_second <= 0:
            raise InvalidArgument(f"a rate of {bytes_per_second} bytes per second never moves")
        self._bytes_per_ms = bytes_per_second / 1000
        self._clock = clock
        self._sleep = sleep
        self._paid_until_ms = float(clock.monotonic_ms())

    def take(self, size_bytes: int) -> None:
        """Account for bytes read or written, and sleep if that was too fast."""
        now = self._clock.monotonic_ms()
        self._paid_until_ms = max(self._paid_until_ms, now) + size_bytes / self._bytes_per_ms
        ahead_ms = self._paid_until_ms - now
        if ahead_ms >= _SHORTEST_SLEEP_MS:
            self._sleep(ahead_ms / 1000)
