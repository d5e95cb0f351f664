"""Our data source side by side with Spark's own Kafka connector: one session, one broker, in turn.

Both sides run in the same `local[2]` session on the same topics, at their default options. A figure
is the median of `HEADRACE_BENCH_ROUNDS` rounds (3) after one that does not count.
`HEADRACE_BENCH_SCALE` (1.0) makes every run shorter or longer, `HEADRACE_BENCH_DIR` says where data
lies, and `HEADRACE_BENCH_SPARK` names the groups of rows to run, with commas between.

Latency is from the moment a producer hands a record to its client until a consumer in another
process holds the copy that the stream made of it, committed.
"""

import os
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench import end_to_end, rdkafka_client
from bench.broker_pair import headrace, new_topic
from bench.row import Row, alternate, median, seconds, spread
from bench.spark_decode import DecodeLoad
from bench.spark_ground import OURS, THEIRS, Ground
from headrace.testing.readiness import wait_until
from testkit.peer.spark_session import stop_java

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
CHOSEN = os.environ.get("HEADRACE_BENCH_SPARK", "")

PARTITIONS = 6
VALUE_BYTES = 100
READ_RECORDS = int(20_000_000 * SCALE)
DECODE_RECORDS = int(5_000_000 * SCALE)
WRITE_RECORDS = int(10_000_000 * SCALE)
RATE = 1000
WARM_UP_COUNT = 5 * RATE
LATENCY_COUNT = max(5 * RATE, int(10 * RATE * SCALE))
_START_SECONDS = 120.0


def run() -> list[Row]:
    rows: list[Row] = []
    with _ground() as ground:
        for name, group in _GROUPS.items():
            if not CHOSEN or name in CHOSEN.split(","):
                rows += group(ground)
    return rows


@contextmanager
def _ground() -> Iterator[Ground]:
    parent = os.environ.get("HEADRACE_BENCH_DIR")
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=parent))
    broker = headrace(folder)
    try:
        broker.start()
        ground = Ground(folder, broker)
        try:
            yield ground
        finally:
            ground.spark.stop()
            stop_java()
    finally:
        broker.kill()
        shutil.rmtree(folder)


# -- reading -----------------------------------------------------------------------------------


def read(ground: Ground) -> list[Row]:
    topic = new_topic(ground.broker, PARTITIONS)
    values = [bytes(random.Random(7).randbytes(VALUE_BYTES)) for _ in range(100)]
    rdkafka_client.produce(
        ground.broker.address, topic, values, records=READ_RECORDS, partitions=PARTITIONS
    )
    return [
        _row(
            f"batch read, count and sum(length(value)), {READ_RECORDS:,} × 100 B",
            lambda side: _batch_read(ground, topic, side),
            READ_RECORDS,
            bar=3.0,
        ),
        _row(
            f"streaming read, availableNow, {READ_RECORDS:,} × 100 B",
            lambda side: _stream_read(ground, topic, side),
            READ_RECORDS,
            bar=3.0,
        ),
    ]


def _batch_read(ground: Ground, topic: str, side: str) -> None:
    rows = ground.of(ground.spark.read, side, subscribe=topic).load()
    (found,) = rows.selectExpr("count(*)", "sum(length(value))").collect()
    _check(side, tuple(found))


def _stream_read(ground: Ground, topic: str, side: str) -> None:
    stream = ground.of(
        ground.spark.readStream, side, subscribe=topic, startingOffsets="earliest"
    ).load()
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    sizes = stream.select(F.length("value").alias("size"))
    _check(side, ground.observed(sizes, rows=F.count(F.lit(1)), bytes=F.sum("size")))


def _check(side: str, found: tuple[int, ...]) -> None:
    expected = (READ_RECORDS, READ_RECORDS * VALUE_BYTES)
    if found != expected:
        raise AssertionError(f"{side} read {found} (records, bytes) instead of {expected}")


# -- decoding ----------------------------------------------------------------------------------


def decode(ground: Ground) -> list[Row]:
    load = DecodeLoad(ground, DECODE_RECORDS)
    return [
        _row(f"{what}, {load.records:,} records", call, load.records) for what, call in load.reads()
    ]


# -- writing -----------------------------------------------------------------------------------


def write(ground: Ground) -> list[Row]:
    return [
        _row(
            f"batch write of {WRITE_RECORDS:,} rows × 100 B",
            lambda side: _write(ground, side),
            WRITE_RECORDS,
            bar=2.0,
        ),
        # The connector has no such thing: its rows may be doubled and are visible one by one.
        _row(
            f"batch write of {WRITE_RECORDS:,} rows × 100 B, ours exactly once",
            lambda side: _write(ground, side, **_EXACTLY_ONCE.get(side, {})),
            WRITE_RECORDS,
            bar=2.0,
        ),
    ]


_EXACTLY_ONCE = {OURS: {"guarantee": "exactly-once"}}


def _write(ground: Ground, side: str, **options: str) -> None:
    topic = new_topic(ground.broker, PARTITIONS)
    # The same bytes in every row: what is measured is the sink, not how rows are made.
    value = random.Random(7).randbytes(VALUE_BYTES).hex()
    rows = ground.spark.range(WRITE_RECORDS).selectExpr(f"X'{value}' AS value")
    ground.of(rows.write.mode("append"), side, topic=topic, **options).save()


# -- latency -----------------------------------------------------------------------------------


def latency(ground: Ground) -> list[Row]:
    """The three copies in turn, each against the connector's in the same run."""
    bars: dict[str, tuple[dict[str, str], float]] = {
        "at least once": ({"guarantee": "at-least-once"}, 1.1),
        "exactly once": ({}, 1.3),
    }
    connector: list[_Cuts] = []
    ours: dict[str, list[_Cuts]] = {name: [] for name in bars}
    for _ in range(ROUNDS + 1):
        connector.append(_cuts(ground, THEIRS, {}, {}))
        for name, (options, _) in bars.items():
            ours[name].append(_cuts(ground, OURS, options, {}))
    # In the first round Java still compiles, which slows down the first copy.
    for each in (connector, *ours.values()):
        del each[0]
    print(f"latencies: ours {ours}, connector {connector}", file=sys.stderr)
    rows = []
    for name, (_, bar) in bars.items():
        what = f"copy of a topic at {RATE:,} records/s, micro-batch, {name}"
        for percentile, index in (("p50", 0), ("p99", 1)):
            mine = [each[index] for each in ours[name]]
            theirs = median([each[index] for each in connector])
            row = Row(
                name=f"{what}: {percentile}",
                ours=median(mine),
                theirs=theirs,
                unit="ms",
                spread=spread(mine),
            )
            if percentile == "p50":
                row = replace(row, bar=f"≤ {bar:g}×", reached=median(mine) <= bar * theirs)
            rows.append(row)
    p50, p99 = _cuts(ground, THEIRS, {}, {"realTime": "5 seconds"})
    what = f"copy of a topic at {RATE:,} records/s, connector, real-time mode"
    rows.append(Row(name=f"{what}: p50", ours=p50, unit="ms"))
    rows.append(Row(name=f"{what}: p99", ours=p99, unit="ms"))
    return rows


_Cuts = tuple[float, float]
"""The median and the 99th percentile, in milliseconds."""


def _cuts(ground: Ground, side: str, options: dict[str, str], trigger: dict[str, str]) -> _Cuts:
    cuts = statistics.quantiles(_latencies(ground, side, options, trigger), n=100)
    return cuts[49], cuts[98]


def _latencies(
    ground: Ground, side: str, options: dict[str, str], trigger: dict[str, str]
) -> list[float]:
    source, target = new_topic(ground.broker, 1), new_topic(ground.broker, 1)
    stream = ground.of(
        ground.spark.readStream, side, subscribe=source, startingOffsets="earliest"
    ).load()
    sink = ground.of(stream.select("value").writeStream, side, topic=target, **options)
    sink = sink.option("checkpointLocation", ground.checkpoint())
    if trigger:
        sink = sink.trigger(**trigger).outputMode("update")
    query = sink.start()
    try:
        wait_until(
            lambda: query.lastProgress is not None or query.exception() is not None,
            what="the first progress of the stream",
            timeout_seconds=_START_SECONDS,
        )
        address = ground.broker.address
        end_to_end.latencies_ms(address, source, count=WARM_UP_COUNT, rate=RATE, copied_to=target)
        return end_to_end.latencies_ms(
            address, source, count=LATENCY_COUNT, rate=RATE, copied_to=target
        )
    finally:
        if (failure := query.exception()) is not None:
            raise failure
        query.stop()


# -- rows --------------------------------------------------------------------------------------


def _row(name: str, call: Callable[[str], None], records: int, *, bar: float | None = None) -> Row:
    """Records a second by wall clock, and their ratio held against the bar, if there is one."""
    call(OURS)
    call(THEIRS)
    ours, theirs = alternate(
        lambda: records / seconds(lambda: call(OURS)),
        lambda: records / seconds(lambda: call(THEIRS)),
        rounds=ROUNDS,
    )
    print(f"{name}: ours {ours}, theirs {theirs}", file=sys.stderr)
    row = Row(
        name=name,
        ours=median(ours),
        theirs=median(theirs),
        unit="records/s",
        spread=spread(ours),
    )
    if bar is None:
        return row
    return replace(row, bar=f"≥ {bar:g}×", reached=row.ours / median(theirs) >= bar)


_GROUPS: dict[str, Callable[[Ground], list[Row]]] = {
    "read": read,
    "decode": decode,
    "write": write,
    "latency": latency,
}
