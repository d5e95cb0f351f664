"""The time of a simulator, as a `Clock` for the code under test."""

from typing import Protocol

from testkit.sample.batch import SAMPLE_TIME_MS


class TimeHost(Protocol):
    """A simulator, as far as it has time."""

    now_ms: int


class VirtualClock:
    """The simulator's time, for one broker."""

    def __init__(self, host: TimeHost) -> None:
        self._host = host

    def wall_ms(self) -> int:
        return SAMPLE_TIME_MS + self._host.now_ms

    def monotonic_ms(self) -> int:
        return self._host.now_ms
