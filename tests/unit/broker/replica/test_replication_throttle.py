"""The rate of replicas that catch up, on a clock of the test's own."""

import pytest

from headrace.broker.replica.replication_throttle import ReplicationThrottle, names_replica
from headrace.model.error import ConfigError
from headrace.model.topic_config import LogConfig


class Clock:
    now_ms = 1_000_000

    def monotonic_ms(self):
        return self.now_ms


def test_what_is_below_the_limit_goes_on():
    throttle = ReplicationThrottle(Clock(), lambda: 1000)

    throttle.record(5000)

    assert not throttle.exceeded


def test_what_is_above_waits_until_the_rate_has_come_down():
    clock = Clock()
    throttle = ReplicationThrottle(clock, lambda: 1000)
    throttle.record(50_000)

    assert throttle.exceeded
    clock.now_ms += 60_000
    assert not throttle.exceeded


def test_a_limit_that_is_changed_holds_at_once():
    limits = [10]
    throttle = ReplicationThrottle(Clock(), lambda: limits[0])
    throttle.record(5000)
    assert throttle.exceeded

    limits[0] = 10_000

    assert not throttle.exceeded


@pytest.mark.parametrize(
    ("listed", "named"),
    [((), False), (("*",), True), (("1:2",), True), (("2:1", "1:3"), False)],
)
def test_only_replicas_on_the_list_are_slowed_down(listed, named):
    assert names_replica(listed, 1, 2) is named


def test_a_list_that_names_no_replica_is_refused():
    with pytest.raises(ConfigError, match="PARTITION:BROKER"):
        LogConfig.parse({"leader.replication.throttled.replicas": "0:1,everything"})
