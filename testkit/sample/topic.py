"""Topics that hold one of everything, written to a broker and read back by librdkafka.

The broker may be Apache Kafka or Headrace; what one of them serves is the oracle for the other, and
what Apache Kafka serves is what readers of its files are held to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRIMMED_TO = 33
TIMEOUT_SECONDS = 90

# An index entry for every batch and room for ten: a segment rolls after a handful of batches.
TINY_SEGMENTS = {"index.interval.bytes": "0", "segment.index.bytes": "120"}

# Kafka aborts the transaction that `write_sample` leaves open after a minute, also when it was down
# meanwhile. With this it never looks for such transactions.
KEEPS_OPEN_TRANSACTIONS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(24 * 60 * 60 * 1000)
}

SAMPLE_TOPICS: dict[str, dict[str, str]] = {
    # Compressed by librdkafka and kept so by the broker, and compressed by the broker itself.
    **{f"client-{codec}": {} for codec in CODECS},
    **{f"broker-{codec}": {"compression.type": codec} for codec in CODECS[1:]},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "rolled": TINY_SEGMENTS,
    "trimmed": TINY_SEGMENTS,
    "transactions": TINY_SEGMENTS,
    # Rolled by time: Kafka's cleaner can fail over an index as small as that of the others.
    "compacted": {
        "index.interval.bytes": "0",
        "segment.ms": "20",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
    },
}
"""Each has one partition; the values are the topics' configurations."""


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One record as a consumer saw it. `timestamp_type` is 0 for create and 1 for append time."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """What a broker serves of a topic's one partition.

    Attributes:
        uncommitted: all records below the high watermark.
        committed: those below the last stable offset, without aborted transactions.
    """

    start: int
    high_watermark: int
    last_stable: int
    uncommitted: tuple[SampleRecord, ...]
    committed: tuple[SampleRecord, ...]


def write_sample(address: str) -> Producer:
    """Create and fill the sample topics.

    Returns:
        The producer of a transaction that is still open; keep it as long as it should be.
    """
    admin = AdminClient(_client(address))
    created = admin.create_topics(
        [NewTopic(name, 1, 1, config=config) for name, config in SAMPLE_TOPICS.items()]
    )
    for future in created.values():
        future.result(TIMEOUT_SECONDS)

    for codec in CODECS:
        _produce(address, f"client-{codec}", 100, **{"compression.type": codec})
    for codec in CODECS[1:]:
        _produce(address, f"broker-{codec}", 100)
    _produce(address, "append-time", 40)
    numbered = [(b"k%d" % (number % 4), b"v%d" % number) for number in range(50)]
    _produce_batches(address, "rolled", numbered)
    _produce_batches(address, "trimmed", numbered)
    trimmed = admin.delete_records([TopicPartition("trimmed", 0, TRIMMED_TO)])
    for future in trimmed.values():
        future.result(TIMEOUT_SECONDS)
    _produce_batches(address, "compacted", [*numbered, (b"k2", None), *numbered[:20]])
    return _produce_transactions(address)


def read_sample(address: str) -> dict[str, SeenTopic]:
    """Return the sample topics, as readers of both isolation levels see them."""
    uncommitted = _consume(address, "read_uncommitted")
    committed = _consume(address, "read_committed")
    seen = {}
    for name in SAMPLE_TOPICS:
        (start, high_watermark), all_records = uncommitted[name]
        (_, last_stable), stable_records = committed[name]
        seen[name] = SeenTopic(start, high_watermark, last_stable, all_records, stable_records)
    return seen


def _client(address: str, **settings: str) -> dict[str, str | int | float | bool]:
    """Return librdkafka's settings, without logging: tests stop brokers on purpose."""
    return {"bootstrap.servers": address, "log_level": 0, **settings}


def _flush(producer: Producer) -> None:
    left = producer.flush(TIMEOUT_SECONDS)
    assert left == 0, f"{left} records were not acknowledged in {TIMEOUT_SECONDS} s"


def _produce(address: str, topic: str, count: int, **settings: str) -> None:
    """Write batches with every kind of record: nulls, empty values, headers, odd times."""
    producer = Producer(_client(address, **{"linger.ms": "50", **settings}))
    headers: list[tuple[str, str | bytes | None]]
    for number in range(count):
        headers = [("n", str(number).encode()), ("none", None), ("empty", b"")]
        producer.produce(
            topic,
            partition=0,
            key=None if number % 5 == 0 else f"key-{number % 7}".encode(),
            value=None if number % 11 == 3 else b"value " * (number % 13),
            headers=headers[: number % 4],
            timestamp=1_700_000_000_000 + (number * 7919) % 5000,
        )
        if number % 20 == 19:
            _flush(producer)
    _flush(producer)


def _produce_batches(
    address: str, topic: str, records: Sequence[tuple[bytes, bytes | None]]
) -> None:
    """Write one batch per record."""
    producer = Producer(_client(address))
    for key, value in records:
        producer.produce(topic, partition=0, key=key, value=value)
        _flush(producer)


def _produce_transactions(address: str) -> Producer:
    """Write committed and aborted transactions in turn, then one that stays open."""
    first = Producer(_client(address, **{"transactional.id": "first"}))
    second = Producer(_client(address, **{"transactional.id": "second"}))
    for producer in (first, second):
        producer.init_transactions(TIMEOUT_SECONDS)
    for turn in range(6):
        for producer in (first, second):
            producer.begin_transaction()
            for number in range(3):
                producer.produce("transactions", partition=0, value=f"{turn}-{number}".encode())
            _flush(producer)
        first.commit_transaction(TIMEOUT_SECONDS)
        if turn % 2:
            second.commit_transaction(TIMEOUT_SECONDS)
        else:
            second.abort_transaction(TIMEOUT_SECONDS)
    first.begin_transaction()
    first.produce("transactions", partition=0, value=b"never ended")
    _flush(first)
    _produce_batches(address, "transactions", [(b"after", b"the open one")])
    return first


def _consume(
    address: str, isolation: str
) -> dict[str, tuple[tuple[int, int], tuple[SampleRecord, ...]]]:
    """Return (start, end) and the records of every topic, as read with this isolation."""
    settings = {
        "group.id": "sample",
        "isolation.level": isolation,
        "enable.partition.eof": "true",
        # A busy Kafka may call even the start of a partition out of range.
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(_client(address, **settings, **{"fetch.wait.max.ms": "5"}))
    seen: dict[str, list[SampleRecord]] = {name: [] for name in SAMPLE_TOPICS}
    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in SAMPLE_TOPICS])
        unfinished = set(SAMPLE_TOPICS)
        while unfinished:
            message = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None, f"the broker gave nothing more of {unfinished}"
            topic, error = str(message.topic()), message.error()
            if error is None:
                seen[topic].append(_seen(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unfinished.discard(topic)
        return {name: (_bounds(consumer, name), tuple(records)) for name, records in seen.items()}
    finally:
        consumer.close()


def _bounds(consumer: Consumer, topic: str) -> tuple[int, int]:
    start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_SECONDS)
    return start, end


def _seen(message: Message) -> SampleRecord:
    kind, timestamp_ms = message.timestamp()
    offset = message.offset()
    assert offset is not None
    headers = cast(list[tuple[str, str | bytes | None]], message.headers() or [])
    return SampleRecord(
        offset=offset,
        timestamp_ms=timestamp_ms,
        timestamp_type=int(kind == TIMESTAMP_LOG_APPEND_TIME),
        key=_octets(message.key()),
        value=_octets(message.value()),
        headers=tuple((key, _octets(value)) for key, value in headers),
    )


def _octets(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def seen_rows(columns: pa.RecordBatch) -> list[SampleRecord]:
    """Return rows of `headrace.records.decode` in the form of what a consumer saw."""
    moments = columns["timestamp"].cast(pa.int64()).to_pylist()
    headers = [
        tuple((header["key"], header["value"]) for header in row)
        for row in columns["headers"].to_pylist()
    ]
    return list(
        map(
            SampleRecord,
            columns["offset"].to_pylist(),
            moments,
            columns["timestamp_type"].to_pylist(),
            columns["key"].to_pylist(),
            columns["value"].to_pylist(),
            headers,
        )
    )
