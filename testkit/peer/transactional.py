"""Transactions for tests, on confluent-kafka: writing them and reading what they committed."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer

from testkit.peer.stock_consumer import read_topic

_SECONDS = 90.0


def transactional_producer(address: str, transactional_id: str, **more: Any) -> Producer:
    """Return a producer that has taken over its transactional id."""
    settings = {
        "bootstrap.servers": address,
        "transactional.id": transactional_id,
        "linger.ms": 0,
        # A broker that starts again is not waited for longer than it takes.
        "reconnect.backoff.max.ms": 200,
    }
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
    """Write values in one transaction, and commit or abort it."""
    producer.begin_transaction()
    write(producer, topic, *values, partition=partition)
    if commit:
        producer.commit_transaction(_SECONDS)
    else:
        producer.abort_transaction(_SECONDS)


def read_to_end(
    address: str, topic: str, partitions: Iterable[int] = (0,), *, committed: bool = True
) -> list[bytes]:
    """Return all values that a reader of this isolation level sees now, by partition.

    Raises:
        TimeoutError: the end does not come.
    """
    records = read_topic(address, topic, partitions, committed=committed)
    return [each.value or b"" for partition in sorted(records) for each in records[partition]]
