"""Broker settings for tests: everything that a test would wait for is short."""

from collections.abc import Mapping

# Few internal partitions, no waiting for group members: tests start and rebalance at once.
QUICK_SETTINGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
}
