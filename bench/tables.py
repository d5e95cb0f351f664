"""Tables from topics: rows per second into Delta and Iceberg, and how old a row is when it is read,
beside Spark's own Kafka connector and Parquet sink, in turn.

Values are 100 bytes of random hex digits, all different, in six partitions of one topic. The broker
runs beside on the same cores. A rate counts from before a lander or query connects until its last
commit. Freshness is the age of the oldest row of a commit when the commit is made, with 10,000 rows
per second, the default interval of 5 s, and a trigger of 5 s on Spark's side. One round of each
side before the first counts for nothing.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from binascii import hexlify
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.broker_pair import Broker, headrace, new_topic
from bench.row import Row, median, spread
from bench.spark_session import bench_session
from headrace.client import ClientSettings, Writer
from headrace.landing.committer import Landed
from headrace.landing.lander import Lander, LandingOptions
from headrace.landing.row.raw import RawDecoder
from headrace.landing.source import Source
from headrace.model.table.table_name import TableName
from headrace.testing.readiness import wait_until
from testkit.peer.spark_session import stop_java

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))

_KINDS = ("delta", "iceberg")
_SPARK = "spark"
_PARTITIONS = 6
_VALUE_BYTES = 100
_RECORDS = int(4_000_000 * SCALE)
_CHUNK = 100_000
_RATE_BAR = 1_000_000
_FRESH_ROWS = 10_000
_FRESH_SECONDS = max(15.0 * SCALE, 6.0)
_FRESH_WRITES_PER_SECOND = 20
_FRESH_BAR = 10.0
_EVERY = 5.0

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Ground:
    """The broker, the session and the folder that all sides share."""

    folder: Path
    broker: Broker
    spark: Any

    def lander(
        self,
        kind: str,
        topic: str,
        *,
        follow: bool,
        committed: Callable[[Landed], None] = lambda landed: None,
    ) -> Lander:
        """A lander into a new table."""
        folder, table = self.folder, f"t{next(_numbers)}"
        name = f"delta:{folder}/{table}" if kind == "delta" else f"iceberg:lake.bench.{table}"
        catalog = {"uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
        return Lander(
            ClientSettings.of({"bootstrap.servers": self.broker.address}),
            Source(topic=topic, topic_id=None),
            RawDecoder(),
            LandingOptions(
                table=TableName.parse(name),
                catalog=catalog,
                follow=follow,
                every_seconds=_EVERY,
            ),
            committed=committed,
        )

    def query(self, topic: str, **trigger: Any) -> Any:
        """A query of Spark's own parts that lands the same columns in a new folder."""
        folder = self.folder / f"parquet{next(_numbers)}"
        rows = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.broker.address)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .load()
            .select("key", "value", "headers", "partition", "offset", "timestamp")
        )
        writer = rows.writeStream.format("parquet").option("path", str(folder / "files"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        return writer.trigger(**trigger).start()


def run() -> list[Row]:
    with _ground() as ground:
        return [*_rates(ground), *_freshness(ground)]


@contextmanager
def _ground() -> Iterator[Ground]:
    parent = os.environ.get("HEADRACE_BENCH_DIR")
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=parent))
    broker = headrace(folder)
    try:
        broker.start()
        ground = Ground(folder, broker, bench_session(folder))
        try:
            yield ground
        finally:
            ground.spark.stop()
            stop_java()
    finally:
        broker.kill()
        shutil.rmtree(folder)


def _in_turn(measure: Callable[[str], float]) -> dict[str, list[float]]:
    """Measure all sides in turn, so that a slow minute of the machine hits all alike."""
    found: dict[str, list[float]] = {each: [] for each in (*_KINDS, _SPARK)}
    for number in range(-1, ROUNDS):
        for side, kept in found.items():
            os.sync()
            figure = measure(side)
            if number >= 0:
                kept.append(figure)
    print(f"tables: {found}", file=sys.stderr)
    return found


# -- rate --------------------------------------------------------------------------------------


def _rates(ground: Ground) -> list[Row]:
    topic = new_topic(ground.broker, _PARTITIONS)
    _fill(ground.broker, topic)
    found = _in_turn(lambda side: _rate(ground, topic, side))
    return [
        Row(
            name=f"land {_RECORDS:,} records × 100 B in {kind}, beside Spark's Parquet sink",
            ours=median(found[kind]),
            theirs=median(found[_SPARK]),
            unit="rows/s",
            spread=spread(found[kind]),
            bar="≥ 1,000,000 rows/s",
            reached=median(found[kind]) >= _RATE_BAR,
        )
        for kind in _KINDS
    ]


def _fill(broker: Broker, topic: str) -> None:
    with Writer({"bootstrap.servers": broker.address}, topic) as writer:
        for first in range(0, _RECORDS, _CHUNK):
            rows = min(_CHUNK, _RECORDS - first)
            places = pa.array(np.arange(first, first + rows, dtype=np.int32) % _PARTITIONS)
            writer.write(pa.table({"value": _values(rows), "partition": places}))


def _values(rows: int) -> pa.Array:
    """Random values: repeated ones would compress to nothing."""
    ends = np.arange(0, _VALUE_BYTES * (rows + 1), _VALUE_BYTES, dtype=np.int32)
    data = hexlify(os.urandom(_VALUE_BYTES // 2 * rows))
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(data)]
    )


def _rate(ground: Ground, topic: str, side: str) -> float:
    began = time.perf_counter()
    if side == _SPARK:
        query = ground.query(topic, availableNow=True)
        query.awaitTermination()
        taken = time.perf_counter() - began
        rows = sum(each.numInputRows for each in query.recentProgress)
    else:
        rows = ground.lander(side, topic, follow=False).run().rows
        taken = time.perf_counter() - began
    if rows != _RECORDS:
        raise AssertionError(f"{side} landed {rows:,} rows instead of {_RECORDS:,}")
    return rows / taken


# -- freshness ---------------------------------------------------------------------------------


def _freshness(ground: Ground) -> list[Row]:
    found = _in_turn(lambda side: _oldest(ground, side))
    return [
        Row(
            name=f"oldest row of a commit in {kind} at 10,000 rows/s, beside Spark's Parquet sink",
            ours=median(found[kind]),
            theirs=median(found[_SPARK]),
            unit="s",
            spread=spread(found[kind]),
            bar="≤ 10 s",
            reached=max(found[kind]) <= _FRESH_BAR,
        )
        for kind in _KINDS
    ]


class _Ages:
    """How old the oldest row of each commit is. One thread writes rows, another commits them."""

    def __init__(self) -> None:
        self.all: list[float] = []
        self.committed = 0
        self._written: list[tuple[int, float]] = []

    def write(self, first: int) -> None:
        """Note that rows from this offset on are written now."""
        self._written.append((first, time.monotonic()))

    def commit(self, offset: int) -> None:
        """Note that all rows before this offset can be read now."""
        now, before = time.monotonic(), self.committed
        new = [at for first, at in self._written if before <= first < offset]
        if new:
            self.all.append(now - min(new))
        self.committed = max(before, offset)


def _oldest(ground: Ground, side: str) -> float:
    """Return the age of the oldest row over all commits."""
    topic = new_topic(ground.broker, 1)
    ages = _Ages()
    following = _followed_by_spark if side == _SPARK else _followed_by_us
    with following(ground, side, topic, ages):
        rows = _write_steadily(ground.broker, topic, ages)
        wait_until(
            lambda: ages.committed >= rows,
            what=f"the last row of {side}",
            timeout_seconds=120,
        )
    return max(ages.all)


def _write_steadily(broker: Broker, topic: str, ages: _Ages) -> int:
    rows = _FRESH_ROWS // _FRESH_WRITES_PER_SECOND
    writes = int(_FRESH_SECONDS * _FRESH_WRITES_PER_SECOND)
    with Writer({"bootstrap.servers": broker.address}, topic) as writer:
        began = time.monotonic()
        for number in range(writes):
            table = pa.table({"value": _values(rows)})
            ages.write(number * rows)
            writer.write(table)
            writer.flush()
            due = began + (number + 1) / _FRESH_WRITES_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
    return writes * rows


@contextmanager
def _followed_by_us(ground: Ground, side: str, topic: str, ages: _Ages) -> Iterator[None]:
    def committed(landed: Landed) -> None:
        ages.commit((landed.offsets or {}).get(0, 0))

    ended = threading.Event()
    lander = ground.lander(side, topic, follow=True, committed=committed)
    thread = threading.Thread(target=lander.run, args=[ended.is_set])
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _followed_by_spark(ground: Ground, side: str, topic: str, ages: _Ages) -> Iterator[None]:
    """A batch counts as committed when Spark reports its progress, right after its commit."""
    query = ground.query(topic, processingTime=f"{_EVERY:g} seconds")
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            progress = query.lastProgress
            end = None if progress is None else _end_offset(progress.sources[0].endOffset)
            if end is not None:
                ages.commit(end)

    wait_until(lambda: query.lastProgress is not None, what="Spark's first batch")
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        query.stop()


def _end_offset(text: str | None) -> int | None:
    """Return the offset of the only partition in Spark's JSON: `{"topic": {"0": 7}}`."""
    return None if not text else int(next(iter(json.loads(text).values()))["0"])
