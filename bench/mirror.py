"""Mirrors beside MirrorMaker 2: from one broker of ours to another one, the same for all sides.

A topic of 1 KiB records in four partitions is filled once and copied again and again, each time
under a new name: by the target's broker (a mirror topic), by `headrace mirror run` (a process), and
by MirrorMaker 2's source connector with its defaults and two tasks, in one worker of Kafka Connect
that stays. Clocks run from the last moment when the copy was empty, so starting costs nothing.

CPU is that of the mirror process and of the target's broker together: the same boundary for
all sides, with what any target pays for being written to. Added latency is how much later a
consumer of the target has a record than a consumer of the source. Memory is the most that the
mirror process had over all of it, the target's broker not counted.

`HEADRACE_BENCH_ROUNDS` rounds (3) after one that does not count; `HEADRACE_BENCH_SCALE` (1.0)
changes how much is copied.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median as middle

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from bench.broker_pair import Figures, Rounds, new_topic
from bench.mirror_side import LinkSide, MirrorMakerSide, MirrorSide, ProcessSide
from bench.rdkafka_client import consume, produce
from bench.row import Row, median, spread
from testkit.peer.mirror_maker import STOCK_OPTIONS, MirrorMaker
from testkit.process.broker_process import BrokerProcess

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))

_PARTITIONS = 4
_VALUE_BYTES = 1024
_RECORDS = max(10_000, int(300_000 * SCALE))
_LONE_RECORDS = max(50, int(300 * SCALE))
_MB, _GB = 10**6, 10**9
# The sizes of batches that producers make by default when they are busy: Java's, and librdkafka's.
_BATCHES = {"batches of 16 KB": "16384", "batches of up to 1 MB": "1000000"}
_POLL_SECONDS = 0.01
_COPY_SECONDS = 300.0
_ANSWER_SECONDS = 60.0
_LEAST_RATE, _MOST_CPU, _MOST_ADDED_MS, _MOST_MIB = 3.0, 0.2, 10.0, 100.0
_THEIRS = "against MirrorMaker 2"


def run() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(
            prefix="headrace-bench-", dir=os.environ.get("HEADRACE_BENCH_DIR")
        ) as folder,
        _running(Path(folder)) as (source, sides),
    ):
        rows = [
            row
            for what, size in _BATCHES.items()
            for row in _copies(source, sides, what, {"batch.size": size})
        ]
        return [*rows, *_latencies(source, sides), *_memory(sides)]


@contextmanager
def _running(folder: Path) -> Iterator[tuple[BrokerProcess, list[MirrorSide]]]:
    """The source, and the three sides. Brokers have their own defaults, not those of tests."""
    with ExitStack() as stack:

        def broker(name: str) -> BrokerProcess:
            made = BrokerProcess(folder / name, settings={})
            stack.callback(made.kill)
            made.start()
            return made

        source = broker("source")
        targets = [broker(f"target-{number}") for number in range(3)]
        worker = stack.enter_context(MirrorMaker(folder / "mm2", targets[2].address, STOCK_OPTIONS))
        yield (
            source,
            [
                LinkSide(folder / "link", source.address, targets[0]),
                ProcessSide(folder / "process", source.address, targets[1]),
                MirrorMakerSide(folder / "mm2", source.address, targets[2], worker),
            ],
        )


def _alternate(
    sides: Sequence[MirrorSide], measure: Callable[[MirrorSide], Figures]
) -> list[Rounds]:
    """All sides in turn. The first round counts for nothing: it warms a compiler."""
    kept: list[Rounds] = [{} for _ in sides]
    for number in range(-1, ROUNDS):
        for side, figures in zip(sides, kept, strict=True):
            os.sync()
            measured = measure(side)
            if number >= 0:
                for name, value in measured.items():
                    figures.setdefault(name, []).append(value)
    return kept


# A filled topic


def _copies(
    source: BrokerProcess, sides: Sequence[MirrorSide], what: str, settings: Mapping[str, str]
) -> list[Row]:
    topic = new_topic(source, _PARTITIONS)
    values = [os.urandom(_VALUE_BYTES) for _ in range(200)]
    produce(
        source.address,
        topic,
        values,
        records=_RECORDS,
        partitions=_PARTITIONS,
        settings=dict(settings),
    )
    link, process, theirs = _alternate(sides, lambda side: _copy(side, topic))
    size = f"{_RECORDS * _VALUE_BYTES / _MB:,.0f} MB of 1 KiB records in {what}"
    rows = []
    for ours, copied_by in ((link, "brokers copy"), (process, "a process copies")):
        rows += [
            _row(f"{copied_by} {size}; {_THEIRS}", ours, theirs, "rate", "MB/s", _LEAST_RATE),
            _row(
                "the same, CPU of the mirror process and the target's broker",
                *(ours, theirs, "cpu", "s/GB"),
                at_most=_MOST_CPU,
            ),
        ]
    rows.append(
        _row(
            "the same, CPU of the mirror process alone",
            *(process, theirs, "process cpu", "s/GB"),
            at_most=_MOST_CPU,
        )
    )
    return rows


def _copy(side: MirrorSide, topic: str) -> Figures:
    """Copy the filled topic once, and read the copy to its end to see that it is complete."""
    with side.copying(topic) as copy:
        ends = _EndOffsets(side.target.address, copy)
        before = _Costs(side)
        deadline = time.monotonic() + _COPY_SECONDS
        while (copied := ends.total()) < _RECORDS:
            if not copied:
                before = _Costs(side)
            if time.monotonic() > deadline:
                raise AssertionError(f"{copied} of {_RECORDS} records were copied:\n{side.log}")
            time.sleep(_POLL_SECONDS)
        after = _Costs(side)
        consume(side.target.address, copy, records=_RECORDS, partitions=_PARTITIONS)
    _delete(side.target.address, copy)
    size_bytes = _RECORDS * _VALUE_BYTES
    process_cpu = after.process_cpu - before.process_cpu
    return {
        "rate": size_bytes / _MB / (after.at - before.at),
        "cpu": (process_cpu + after.target_cpu - before.target_cpu) / (size_bytes / _GB),
        "process cpu": process_cpu / (size_bytes / _GB),
    }


class _Costs:
    """What a side has cost at one moment."""

    def __init__(self, side: MirrorSide) -> None:
        self.at = time.perf_counter()
        self.process_cpu = side.process_cpu_seconds
        self.target_cpu = side.target_cpu_seconds


class _EndOffsets:
    """Asks how much is in a copy. One request each time, at all sides alike."""

    def __init__(self, address: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": address})
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._wanted = {TopicPartition(topic, each): latest for each in range(_PARTITIONS)}
        self._topic = topic
        self._found = False

    def total(self) -> int:
        """Return the sum of all ends; 0 while the topic is not there."""
        if not self._found:
            topics = self._admin.list_topics(timeout=_ANSWER_SECONDS).topics
            self._found = self._topic in topics
            if not self._found:
                return 0
        try:
            ends = self._admin.list_offsets(self._wanted, request_timeout=_ANSWER_SECONDS)
            return sum(each.result(_ANSWER_SECONDS).offset for each in ends.values())
        except KafkaException:
            return 0  # not led yet


def _delete(address: str, topic: str) -> None:
    """The next rounds need the disk."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([topic])[topic].result(_ANSWER_SECONDS)


# Single records


def _latencies(source: BrokerProcess, sides: Sequence[MirrorSide]) -> list[Row]:
    link, process, theirs = _alternate(sides, lambda side: _added(source, side))
    what = "added latency of single records, p50"
    return [
        _row(
            f"{what}, {copied_by}; {_THEIRS}",
            *(ours, theirs, "added", "ms"),
            at_most_figure=_MOST_ADDED_MS,
        )
        for ours, copied_by in ((link, "brokers copy"), (process, "a process copies"))
    ]


def _added(source: BrokerProcess, side: MirrorSide) -> Figures:
    """One record at a time: how much later it is at the target than at the source."""
    topic = new_topic(source, 1)
    producer = Producer({"bootstrap.servers": source.address, "linger.ms": 0, "acks": "1"})
    added_ms = []
    with side.copying(topic) as copy, ExitStack() as stack:
        producer.produce(topic, b"first")
        producer.flush(_ANSWER_SECONDS)
        here = _consumer(stack, source.address, topic, 0)
        _next_at(here)
        _wait_for_topic(side, copy)
        there = _consumer(stack, side.target.address, copy, 0)
        _next_at(there)
        value = os.urandom(_VALUE_BYTES)
        for _ in range(_LONE_RECORDS):
            producer.produce(topic, value)
            producer.flush(_ANSWER_SECONDS)
            at_source = _next_at(here)
            added_ms.append((_next_at(there) - at_source) * 1000)
            time.sleep(_POLL_SECONDS)  # a lone record, not the next one of a stream
    return {"added": middle(added_ms)}


def _consumer(stack: ExitStack, address: str, topic: str, offset: int) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": "false"}
    )
    stack.callback(consumer.close)
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def _next_at(consumer: Consumer) -> float:
    """Take one record, and return when that was."""
    message = consumer.poll(_COPY_SECONDS)
    now = time.perf_counter()
    if message is None:
        raise AssertionError(f"no record came in {_COPY_SECONDS:g} s")
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return now


def _wait_for_topic(side: MirrorSide, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": side.target.address})
    deadline = time.monotonic() + _COPY_SECONDS
    while topic not in admin.list_topics(timeout=_ANSWER_SECONDS).topics:
        if time.monotonic() > deadline:
            raise AssertionError(f"{topic} was not created at the target:\n{side.log}")
        time.sleep(_POLL_SECONDS)


# Rows


def _memory(sides: Sequence[MirrorSide]) -> list[Row]:
    link, process, theirs = sides
    return [
        Row(
            name=f"the most memory of the mirror process, {copied_by}; {_THEIRS}",
            ours=ours.peak_rss_mib,
            theirs=theirs.peak_rss_mib,
            unit="MiB",
            bar=f"≤ {_MOST_MIB:g} MiB",
            reached=ours.peak_rss_mib <= _MOST_MIB,
        )
        for ours, copied_by in ((link, "brokers copy"), (process, "a process copies"))
    ]


def _row(
    name: str,
    ours: Rounds,
    theirs: Rounds,
    figure: str,
    unit: str,
    at_least: float | None = None,
    *,
    at_most: float | None = None,
    at_most_figure: float | None = None,
) -> Row:
    mine, other = median(ours[figure]), median(theirs[figure])
    bar, reached = "", None
    if at_least is not None:
        bar, reached = f"≥ {at_least:g}×", mine >= at_least * other
    elif at_most is not None:
        bar, reached = f"≤ {at_most:g}×", mine <= at_most * other
    elif at_most_figure is not None:
        bar, reached = f"≤ {at_most_figure:g} {unit}", mine <= at_most_figure
    return Row(
        name=name,
        ours=mine,
        theirs=other,
        unit=unit,
        spread=spread(ours[figure]) if mine else None,
        bar=bar,
        reached=reached,
    )
