"""Broker settings for tests: everything that a test would wait for is short."""

from collections.abc import Mapping

# Few internal partitions, no waiting for group members: tests start and rebalance at once.
QUICK_SETTINGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    # Tests write records of years ago; a broker that lives for longer than the default five minutes
    # would delete them in the middle of a test.
    "log.retention.check.interval.ms": "86400000",
}
