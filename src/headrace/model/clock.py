"""Time as an argument. No package below the broker reads the machine's clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: the wall for timestamps, the monotonic one for durations."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, UTC. May jump when the machine's clock is set."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since some moment. Never goes back."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until `advance`; tests and simulations use it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def wall_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, duration_ms: int) -> None:
        self._now_ms += duration_ms
