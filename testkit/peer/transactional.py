"""Transactions for tests, on confluent-kafka: writing them and reading what they committed."""

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

_SECONDS = 30.0


def transactional_producer(address: str, transactional_id: str, **more: Any) -> Producer:
    """A producer that has taken over its transactional id."""
    settings = {"bootstrap.servers": address, "transactional.id": transactional_id, "linger.ms": 0}
    producer = Producer(settings | {name.replace("_", "."): value for name, value in more.items()})
    producer.init_transactions(_SECONDS)
    return producer


def write(producer: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    """Produce in the open transaction, and wait until the broker has it."""
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(_SECONDS) == 0


def transact(
    producer: Producer, topic: str, *values: bytes, commit: bool = True, partition: int = 0
) -> None:
    """One whole transaction."""
    producer.begin_transaction()
    write(producer, topic, *values, partition=partition)
    if commit:
        producer.commit_transaction(_SECONDS)
    else:
        producer.abort_transaction(_SECONDS)


def read_to_end(
    address: str, topic: str, partitions: Iterable[int] = (0,), *, committed: bool = True
) -> list[bytes]:
    """All values that a reader of this isolation level can see now, partition by partition.

    Raises:
        TimeoutError: the end does not come.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reads-and-never-commits",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    found: dict[int, list[bytes]] = {partition: [] for partition in partitions}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    ended: set[int] = set()
    deadline = time.monotonic() + _SECONDS
    try:
        while len(ended) < len(found):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has no end: {len(ended)} of {len(found)} partitions")
            for message in consumer.consume(1000, 0.1):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    found[partition].append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
    finally:
        consumer.close()
    return [value for partition in sorted(found) for value in found[partition]]
