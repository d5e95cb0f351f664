"""Reading into Python: Arrow columns through our `Reader`, messages through confluent-kafka.

Both read the same topic of the same broker, in turn: values of 100 bytes, six partitions. Ours
counts from before it connects; confluent-kafka from its first messages on, so that finding the
brokers is left out. Its queue is large enough that librdkafka never rests, and every value is read.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.broker_pair import Broker, headrace, kafka, new_topic
from bench.rdkafka_client import produce
from bench.row import Row, alternate, median, spread
from headrace.client.read.reader import Reader

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "5"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))

_PARTITIONS = 6
_VALUE_BYTES = 100
_RECORDS = int(6_000_000 * SCALE)
_THEIR_RECORDS = int(1_000_000 * SCALE)
_CONSUME = 10_000
_STALL_SECONDS = 30.0
_RATIO_BAR = 10.0
_CORE_BAR = 4_000_000


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_rows(headrace(Path(folder)), "", held=True),
            *_rows(kafka(Path(folder)), ", from Apache Kafka", held=False),
        ]


def _rows(broker: Broker, suffix: str, *, held: bool) -> list[Row]:
    """Only what our own broker serves is held against the bars."""
    broker.start()
    try:
        topic = new_topic(broker, _PARTITIONS)
        produce(
            broker.address,
            topic,
            [os.urandom(_VALUE_BYTES) for _ in range(200)],
            records=_RECORDS,
            partitions=_PARTITIONS,
        )
        return _measure(broker.address, topic, suffix, held)
    finally:
        broker.stop()


def _measure(address: str, topic: str, suffix: str, held: bool) -> list[Row]:
    _read(address, topic)  # compiles the kernels, once on a machine
    ours, theirs = alternate(
        lambda: _RECORDS / _seconds(lambda: _read(address, topic), time.perf_counter),
        lambda: _consume(address, topic),
        ROUNDS,
    )
    ratio = median(ours) / median(theirs)

    def per_core(**options: bool) -> list[float]:
        return [
            _RECORDS / _seconds(lambda: _read(address, topic, **options), time.process_time)
            for _ in range(ROUNDS)
        ]

    core = per_core()
    views = per_core(views=True)
    return [
        Row(
            name=f"read all columns; against consume(){suffix}",
            ours=median(ours),
            theirs=median(theirs),
            unit="records/s",
            spread=spread(ours),
            bar=f"≥ {_RATIO_BAR:g}×" if held else "",
            reached=ratio >= _RATIO_BAR if held else None,
        ),
        Row(
            name=f"read all columns, one core's worth of CPU time{suffix}",
            ours=median(core),
            unit="records/s",
            spread=spread(core),
            bar=f"≥ {_CORE_BAR:,}" if held else "",
            reached=median(core) >= _CORE_BAR if held else None,
        ),
        Row(
            name=f"the same, keys and values as views{suffix}",
            ours=median(views),
            unit="records/s",
            spread=spread(views),
        ),
    ]


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def _read(address: str, topic: str, *, views: bool = False) -> None:
    """Every record, in all columns; the bytes of the values are added up, to have touched them."""
    rows = size = 0
    with Reader.of_topics({"bootstrap.servers": address}, topic, views=views) as reader:
        for chunk in reader:
            rows += chunk.columns.num_rows
            if not views:  # Arrow has no length of views yet
                size += pc.sum(pc.binary_length(chunk.columns["value"])).as_py()
    assert rows == _RECORDS
    assert views or size == _RECORDS * _VALUE_BYTES


def _consume(address: str, topic: str) -> float:
    """Records a second, a list of messages at a time."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"{topic}-readers",
            "enable.auto.commit": "false",
            "queued.min.messages": "1000000",
            "queued.max.messages.kbytes": "1048576",
            "fetch.queue.backoff.ms": "1",
        }
    )
    consumer.assign([TopicPartition(topic, each, 0) for each in range(_PARTITIONS)])
    try:
        first = _take(consumer)
        start = time.perf_counter()
        seen = 0
        while seen < _THEIR_RECORDS - first:
            seen += _take(consumer)
        return seen / (time.perf_counter() - start)
    finally:
        consumer.close()


def _take(consumer: Consumer) -> int:
    deadline = time.monotonic() + _STALL_SECONDS
    while not (messages := consumer.consume(_CONSUME, 0.1)):
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing came in {_STALL_SECONDS:g} s")
    size = 0
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        size += len(message.value() or b"")
    assert size == len(messages) * _VALUE_BYTES
    return len(messages)
