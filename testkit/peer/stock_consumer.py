"""What a stock client sees in a topic: confluent-kafka's consumer, to the end of partitions."""

import math
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_SECONDS = 90.0


class ConsumedRecord(NamedTuple):
    """One record as confluent-kafka's consumer returned it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, Any]]


def read_topic(
    address: str, topic: str, partitions: Iterable[int] = (0,), *, committed: bool = True
) -> dict[int, list[ConsumedRecord]]:
    """Return every record that can be read now, by partition.

    A partition is read to where it ended at first: one that is written all the time may never
    have an end for a consumer that waits for more.

    Raises:
        TimeoutError: the end does not come.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reads-and-never-commits",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # A busy Kafka may call even offset 0 of a new partition out of range.
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    found: dict[int, list[ConsumedRecord]] = {partition: [] for partition in partitions}
    ends = {partition: _end(consumer, topic, partition) for partition in found}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    ended: set[int] = set()
    deadline = time.monotonic() + _SECONDS
    try:
        while len(ended) < len(found):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has no end: {len(ended)} of {len(found)} partitions")
            for message in consumer.consume(10_000, 0.1):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    if (message.offset() or 0) >= ends[partition]:
                        ended.add(partition)
                        continue
                    found[partition].append(
                        ConsumedRecord(
                            message.offset() or 0,
                            message.timestamp()[1],
                            message.key(),
                            message.value(),
                            _pairs(message.headers()),
                        )
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
    finally:
        consumer.close()
    return found


def _end(consumer: Consumer, topic: str, partition: int) -> float:
    """Return where a partition ends; infinity if it cannot be asked yet."""
    try:
        ends = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
    except KafkaException:
        return math.inf
    return math.inf if ends is None else ends[1]


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    return list(headers or ())
