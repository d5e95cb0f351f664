"""Writing from Python: Arrow tables through our `Writer`, records through confluent-kafka.

One broker, ours, serves both. Values of 100 bytes, six partitions, acks=all, every record
acknowledged at the end. What Python needs to make its records of something is left out on both
sides: the table and the list of values are there before the clock starts.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.broker_pair import Broker, headrace, new_topic
from bench.row import Row, median, spread
from headrace.client.write.writer import Writer

_PARTITIONS = 6
_VALUE_BYTES = 100
_OUR_RECORDS = 4_000_000
_THEIR_RECORDS = 500_000
_TABLE_ROWS = 200_000
_ROUNDS = 5
_HANDFUL = 1000
_BAR = 5.0

Measure = Callable[[Broker], float]


def run() -> list[Row]:
    values = pa.array(np.random.default_rng(1).bytes(_VALUE_BYTES) for _ in range(_TABLE_ROWS))
    keys = pa.array(b"user-%d" % (number % 10_000) for number in range(_TABLE_ROWS))
    plain, keyed = pa.table({"value": values}), pa.table({"key": keys, "value": values})
    rows = list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        broker = headrace(Path(folder))
        broker.start()
        try:
            return [
                _row(
                    "write, no keys; against produce()",
                    *_alternate(broker, _ours(plain), _one_by_one(rows, keyed=False)),
                    bar=True,
                ),
                _row(
                    "write, by key; against produce()",
                    *_alternate(broker, _ours(keyed), _one_by_one(rows, keyed=True)),
                    bar=True,
                ),
                _row(
                    "write, no keys; against produce_batch()",
                    *_alternate(broker, _ours(plain), _by_handfuls(rows)),
                ),
                _row(
                    "write, no keys, one core's worth of CPU time",
                    [_cpu(_ours(plain), broker) for _ in range(_ROUNDS)],
                ),
            ]
        finally:
            broker.kill()


def _alternate(broker: Broker, ours: Measure, theirs: Measure) -> tuple[list[float], list[float]]:
    """In turn; the first round of each warms both up and counts for nothing."""
    our_rounds, their_rounds = [], []
    for number in range(-1, _ROUNDS):
        for measure, kept in ((ours, our_rounds), (theirs, their_rounds)):
            rate = measure(broker)
            if number >= 0:
                kept.append(rate)
    return our_rounds, their_rounds


def _row(
    name: str, ours: list[float], theirs: list[float] | None = None, *, bar: bool = False
) -> Row:
    their_rate = None if theirs is None else median(theirs) / 1e6
    our_rate = median(ours) / 1e6
    return Row(
        name=name,
        ours=our_rate,
        theirs=their_rate,
        unit="M records/s",
        spread=spread(ours),
        bar=f"≥ {_BAR:g}×" if bar else "",
        reached=our_rate >= _BAR * their_rate if bar and their_rate else None,
    )


def _ours(table: pa.Table) -> Measure:
    def measure(broker: Broker) -> float:
        topic = new_topic(broker, _PARTITIONS)
        start = time.perf_counter()
        with Writer({"bootstrap.servers": broker.address}, topic) as writer:
            for _ in range(_OUR_RECORDS // _TABLE_ROWS):
                writer.write(table)
        return _OUR_RECORDS / (time.perf_counter() - start)

    return measure


def _cpu(measure: Measure, broker: Broker) -> float:
    start = time.process_time()
    measure(broker)
    return _OUR_RECORDS / (time.process_time() - start)


def _one_by_one(rows: list[tuple[bytes, bytes]], *, keyed: bool) -> Measure:
    def measure(broker: Broker) -> float:
        topic = new_topic(broker, _PARTITIONS)
        producer = _producer(broker)
        start = time.perf_counter()
        for number in range(_THEIR_RECORDS):
            key, value = rows[number % _TABLE_ROWS]
            while True:
                try:
                    producer.produce(topic, value, key if keyed else None)
                    break
                except BufferError:
                    producer.poll(0.001)
        return _THEIR_RECORDS / (_flushed(producer) - start)

    return measure


def _by_handfuls(rows: list[tuple[bytes, bytes]]) -> Measure:
    def measure(broker: Broker) -> float:
        topic = new_topic(broker, _PARTITIONS)
        producer = _producer(broker)
        handful: list[dict[str, object]] = [{"value": value} for _, value in rows[:_HANDFUL]]
        start = time.perf_counter()
        for number in range(_THEIR_RECORDS // _HANDFUL):
            left = handful
            while left:
                if producer.produce_batch(topic, left, number % _PARTITIONS) == len(left):
                    break
                left = [each for each in left if each.pop("_error", None) is not None]
                producer.poll(0.001)
        return _THEIR_RECORDS / (_flushed(producer) - start)

    return measure


def _producer(broker: Broker) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.address,
            "acks": "all",
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": "500000",
            "on_delivery": _check,
            # Without it librdkafka calls into Python for every record.
            "delivery.report.only.error": True,
        }
    )


def _check(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def _flushed(producer: Producer) -> float:
    unsent = producer.flush(60.0)
    if unsent:
        raise AssertionError(f"{unsent} records were not acknowledged")
    return time.perf_counter()
