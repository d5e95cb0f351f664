"""Topologies against PySpark written by hand, and what a bolt, a batch and a tuple cost.

Both sides of the word count run in one `local[2]` session on one broker, in turn, over the same
topic: lines of ten words out of 10,000. `HEADRACE_BENCH_SCALE` (1.0) makes every run shorter or
longer, `HEADRACE_BENCH_ROUNDS` (3) says how often the two sides take turns, and
`HEADRACE_BENCH_FLOW` names the groups of rows to run, with commas between.
"""

import json
import os
import random
import statistics
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench import end_to_end, rdkafka_client
from bench.broker_pair import new_topic
from bench.flow_ground import NOW, ROUNDS, SCALE, Ground, flow_ground, shuffle_partitions
from bench.row import Row, alternate, median, seconds, spread
from bench.yahoo import yahoo
from headrace.flow.execution.job import start
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.select import Select
from headrace.flow.plan.work import Emit
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.spark.sink.each_batch import each_batch
from headrace.testing.readiness import wait_until
from testkit.peer.transactional import read_to_end

CHOSEN = os.environ.get("HEADRACE_BENCH_FLOW", "")

WORDS_A_LINE = 10
WORDS = int(10_000_000 * SCALE)
DISTINCT_WORDS = 10_000
KEYS = 1_000
BATCH_TUPLES = 200_000
# A flow runs for days. The JVM compiles Spark's planning for most of the first minute.
WARM_UP_BATCHES = max(5, int(60 * SCALE))
COUNTED_BATCHES = max(5, int(20 * SCALE))
BATCHES = WARM_UP_BATCHES + COUNTED_BATCHES
RATE = 1_000
LATENCY_COUNT = max(5 * RATE, int(20 * RATE * SCALE))
_START_SECONDS = 300.0


def run() -> list[Row]:
    rows: list[Row] = []
    with flow_ground() as ground:
        for name, group in _GROUPS.items():
            if not CHOSEN or name in CHOSEN.split(","):
                rows += group(ground)
    return rows


# -- word count ----------------------------------------------------------------------------------


def split(batch: pa.RecordBatch, emit: Emit) -> None:
    words = pc.split_pattern(batch["value"], " ")
    emit([pc.list_flatten(words)], rows=pc.list_parent_indices(words))


def words(ground: Ground) -> list[Row]:
    chance = random.Random(7)
    lines = [
        " ".join(f"word{chance.randrange(DISTINCT_WORDS)}" for _ in range(WORDS_A_LINE)).encode()
        for _ in range(10_000)
    ]
    topic = ground.produce(lines, WORDS // WORDS_A_LINE)
    _our_words(ground, topic)
    _their_words(ground, topic)
    ours, theirs = alternate(
        lambda: WORDS / seconds(lambda: _our_words(ground, topic)),
        lambda: WORDS / seconds(lambda: _their_words(ground, topic)),
        rounds=ROUNDS,
    )
    return [
        Row(
            name=f"word count, {WORDS:,} words, {DISTINCT_WORDS:,} distinct, against PySpark",
            ours=median(ours),
            theirs=median(theirs),
            unit="words/s",
            spread=spread(ours),
            bar="≥ 0.8×",
            reached=median(ours) / median(theirs) >= 0.8,
        )
    ]


def _our_words(ground: Ground, topic: str) -> None:
    target = new_topic(ground.broker, 1)
    made = Topology(f"words-{ground.number()}", dead_letters=None)
    spout = TopicSpout(topic, brokers=ground.broker.address, fields="value STRING")
    made.spout("lines", spout)
    made.bolt("split", split, output="word STRING").shuffle("lines")
    made.bolt("count", Aggregate("word", n="count"), parallelism=2).fields("split", "word")
    made.sink("counts", TopicSink(target, key="word")).shuffle("count")
    ground.run(made)


def _their_words(ground: Ground, topic: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    target = new_topic(ground.broker, 1)
    options = {"kafka.bootstrap.servers": ground.broker.address}
    stream = ground.spark.readStream.format("headrace").schema("value BINARY").options(**options)
    lines = stream.options(subscribe=topic, startingOffsets="earliest").load()
    counts = (
        lines.select(F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
        .groupBy("word")
        .agg(F.count(F.lit(1)).alias("n"))
        .select(F.col("word").alias("key"), F.to_json(F.struct("word", "n")).alias("value"))
    )
    name = f"by-hand-{ground.number()}"
    writer = counts.writeStream.outputMode("update").trigger(**NOW)
    writer = writer.option("checkpointLocation", str(ground.checkpoint()))
    with shuffle_partitions(ground.spark, 2):
        query = writer.foreachBatch(each_batch(name, {**options, "topic": target})).start()
    query.awaitTermination()


# -- state in Python -----------------------------------------------------------------------------


class Count(StatefulBolt):
    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        counted = batch["key"].value_counts()
        keys = counted.field("values").to_pylist()
        totals = [
            self.state.get(key, 0) + n
            for key, n in zip(keys, counted.field("counts").to_pylist(), strict=True)
        ]
        self.state.put_all(zip(keys, totals, strict=True))
        emit([keys, totals])


def rename(batch: pa.RecordBatch, emit: Emit) -> None:
    emit([batch["value"]], rows=range(batch.num_rows))


def state(ground: Ground) -> list[Row]:
    values = [f"key{number}".encode() for number in range(KEYS)]
    topic = ground.produce(values, BATCH_TUPLES * BATCHES)
    made = Topology(f"state-{ground.number()}", dead_letters=None)
    made.spout(
        "keys",
        TopicSpout(
            topic,
            brokers=ground.broker.address,
            fields="value STRING",
            options={"maxOffsetsPerTrigger": str(BATCH_TUPLES)},
        ),
    )
    made.bolt("rename", rename, output="key STRING").shuffle("keys")
    made.bolt("count", Count(), output="key STRING, n BIGINT", parallelism=2).fields(
        "rename", "key"
    )
    target = new_topic(ground.broker, 1)
    made.sink("out", TopicSink(target, key="key")).shuffle("count")
    reports = [each for each in ground.run(made) if each["numInputRows"]][-COUNTED_BATCHES:]
    _check_counts(ground, target)
    taken = [each["batchDuration"] / 1_000 for each in reports]
    # Spark counts chunks; every batch has as many tuples as it may have.
    rates = [BATCH_TUPLES / each for each in taken]
    what = f"stateful Python bolt, {KEYS:,} keys active a batch of {BATCH_TUPLES:,}"
    return [
        Row(
            name=what,
            ours=median(rates),
            unit="tuples/s",
            spread=spread(rates),
            bar="≥ 500,000",
            reached=median(rates) >= 500_000,
        ),
        Row(
            name=f"{what}: a batch",
            ours=median(taken),
            unit="s",
            spread=spread(taken),
            bar="≤ 0.4",
            reached=median(taken) <= 0.4,
        ),
    ]


def _check_counts(ground: Ground, target: str) -> None:
    """Every key has been counted as often as it was produced."""
    found: dict[str, int] = {}
    for value in read_to_end(ground.broker.address, target):
        total = json.loads(value)
        found[total["key"]] = total["n"]
    each = BATCH_TUPLES * BATCHES // KEYS
    wrong = {key: n for key, n in found.items() if n != each}
    if len(found) != KEYS or wrong:
        raise AssertionError(f"{len(found)} keys, not all {each} times: {list(wrong.items())[:5]}")


# -- latency -------------------------------------------------------------------------------------


def latency(ground: Ground) -> list[Row]:
    rows: list[Row] = []
    ways = {
        "exactly once, micro-batch": ({"guarantee": "exactly-once"}, _same),
        "at least once, real-time": (
            {"guarantee": "at-least-once", "latency": "realtime"},
            Select(value="value"),
        ),
    }
    for way, (options, bolt) in ways.items():
        cuts = statistics.quantiles(_latencies_ms(ground, options, bolt), n=100)
        what = f"two bolts without state at {RATE:,} tuples/s, {way}"
        bar = 100 if "latency" in options else None
        rows.append(
            Row(
                name=f"{what}: p50",
                ours=cuts[49],
                unit="ms",
                bar="" if bar is None else f"≤ {bar}",
                reached=None if bar is None else cuts[49] <= bar,
            )
        )
        rows.append(Row(name=f"{what}: p99", ours=cuts[98], unit="ms"))
    return rows


def _latencies_ms(ground: Ground, options: dict[str, Any], bolt: Any) -> list[float]:
    source, target = new_topic(ground.broker, 1), new_topic(ground.broker, 1)
    address = ground.broker.address
    made = Topology(f"latency-{ground.number()}", dead_letters=None, **options)
    spout = TopicSpout(source, brokers=address, fields="value BINARY")
    made.spout("in", spout)
    made.bolt("one", bolt, output="value BINARY").shuffle("in")
    made.bolt("two", bolt, output="value BINARY").shuffle("one")
    made.sink("out", TopicSink(target, value="value")).shuffle("two")
    query = start(made.plan(), ground.spark, brokers=address, checkpoint=ground.checkpoint())
    try:
        rdkafka_client.produce(address, source, [b"first"], records=1, partitions=1)
        wait_until(
            lambda: bool(read_to_end(address, target)),
            what=f"the first record of {made.name}",
            timeout_seconds=_START_SECONDS,
        )
        end_to_end.latencies_ms(address, source, count=5 * RATE, rate=RATE, copied_to=target)
        return end_to_end.latencies_ms(
            address, source, count=LATENCY_COUNT, rate=RATE, copied_to=target
        )
    finally:
        query.stop()


def _same(batch: pa.RecordBatch, emit: Emit) -> None:
    emit([batch["value"]], rows=range(batch.num_rows))


_GROUPS: dict[str, Callable[[Ground], list[Row]]] = {
    "words": words,
    "state": state,
    "latency": latency,
    "yahoo": yahoo,
}
