"""confluent-kafka (librdkafka) as the client of both sides."""

import time
from collections.abc import Sequence
from itertools import cycle

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

_HANDFUL = 200
_CHUNK = 500
_FLUSH_SECONDS = 60.0
_STALL_SECONDS = 30.0


def produce(
    address: str,
    topic: str,
    values: Sequence[bytes],
    *,
    records: int,
    partitions: int,
    settings: dict[str, str] | None = None,
) -> float:
    """Records a second with acks=1, all acknowledged; a handful to each partition in turn.

    `produce_batch` keeps Python's part small: the measure is what librdkafka and the broker do.

    Args:
        values: more than a handful of them are all written, one after the other, again and again.
    """
    producer = _producer(address, settings)
    handfuls = _handfuls(values)
    producer.list_topics(topic, 10)
    start = time.perf_counter()
    left = records
    for number, handful in enumerate(cycle(handfuls)):
        if left <= 0:
            break
        _queue(producer, topic, handful[:left], number % partitions)
        left -= len(handful)
    unsent = producer.flush(_FLUSH_SECONDS)
    taken = time.perf_counter() - start
    if unsent:
        raise AssertionError(f"{unsent} records were not acknowledged in {_FLUSH_SECONDS:g} s")
    return records / taken


def _handfuls(values: Sequence[bytes]) -> list[list[dict[str, object]]]:
    """No handful has a message twice: `_queue` marks messages."""
    messages: list[dict[str, object]] = [
        {"value": values[number % len(values)]} for number in range(max(len(values), _HANDFUL))
    ]
    return [messages[at : at + _HANDFUL] for at in range(0, len(messages), _HANDFUL)]


def _producer(address: str, settings: dict[str, str] | None = None) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "acks": "1",
            "queue.buffering.max.messages": "200000",
            "on_delivery": _check,
            # Without it librdkafka calls into Python for every record.
            "delivery.report.only.error": True,
            **(settings or {}),
        }
    )


def _check(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def _queue(
    producer: Producer, topic: str, messages: list[dict[str, object]], partition: int
) -> None:
    """A full queue takes some of them and marks the rest; those go again."""
    while messages:
        taken = producer.produce_batch(topic, messages, partition)
        if taken == len(messages):
            return
        messages = [message for message in messages if message.pop("_error", None) is not None]
        producer.poll(0.001)


def consume(address: str, topic: str, *, records: int, partitions: int) -> float:
    """Records a second from the beginning of every partition, from the first record on."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"{topic}-readers",
            "enable.auto.commit": "false",
            # With the defaults librdkafka rests a second whenever 100,000 records wait in it, and
            # that is all one would measure.
            "queued.min.messages": "1000000",
            "queued.max.messages.kbytes": "1048576",
            "fetch.queue.backoff.ms": "1",
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    try:
        first = _batch(consumer)
        start = time.perf_counter()
        seen = first
        while seen < records:
            seen += _batch(consumer)
        return (seen - first) / (time.perf_counter() - start)
    finally:
        consumer.close()


def _batch(consumer: Consumer) -> int:
    deadline = time.monotonic() + _STALL_SECONDS
    while True:
        messages = consumer.consume(_CHUNK, 0.1)
        for message in messages:
            error = message.error()
            if error is not None:
                raise KafkaException(error)
        if messages:
            return len(messages)
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing came in {_STALL_SECONDS:g} s")


def latencies_us(
    address: str, topic: str, value: bytes, *, count: int, acks: str = "1"
) -> list[float]:
    """One message at a time: produced, acknowledged, then the next."""
    producer = _producer(address, {"linger.ms": "0", "acks": acks})
    taken = []
    for number in range(-count // 10, count):
        start = time.perf_counter_ns()
        producer.produce(topic, value, partition=0)
        producer.flush()
        if number >= 0:
            taken.append((time.perf_counter_ns() - start) / 1000)
    return taken
