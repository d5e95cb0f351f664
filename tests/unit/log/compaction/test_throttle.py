import pytest

from headrace.log.compaction.throttle import Throttle
from headrace.model.clock import ManualClock
from headrace.model.error import InvalidArgument


class Sleeper:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(round(seconds * 1000))

    def throttle(self, bytes_per_second: float) -> Throttle:
        return Throttle(bytes_per_second, self.clock, self.sleep)


def test_takes_as_long_as_the_rate_says() -> None:
    sleeper = Sleeper()
    throttle = sleeper.throttle(1000)

    for _ in range(10):
        throttle.take(500)

    assert sum(sleeper.slept) == pytest.approx(5.0)


def test_does_not_sleep_below_the_rate() -> None:
    sleeper = Sleeper()
    throttle = sleeper.throttle(1000)

    for _ in range(10):
        sleeper.clock.advance(1000)
        throttle.take(5)

    assert sleeper.slept == []


def test_a_rest_earns_no_burst() -> None:
    sleeper = Sleeper()
    throttle = sleeper.throttle(1000)
    sleeper.clock.advance(3_600_000)

    throttle.take(2000)

    assert sleeper.slept == [2.0]


def test_small_pieces_sleep_together() -> None:
    sleeper = Sleeper()
    throttle = sleeper.throttle(1_000_000)

    for _ in range(100):
        throttle.take(1000)

    assert len(sleeper.slept) == 10
    assert sum(sleeper.slept) == pytest.approx(0.1)


def test_an_unlimited_rate_never_sleeps() -> None:
    sleeper = Sleeper()

    sleeper.throttle(1.7976931348623157e308).take(1 << 40)

    assert sleeper.slept == []


def test_refuses_a_rate_of_nothing() -> None:
    with pytest.raises(InvalidArgument, match="never moves"):
        Sleeper().throttle(0)
