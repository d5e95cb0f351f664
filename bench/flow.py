"""Topologies against PySpark written by hand, and what a bolt, a batch and a tuple cost.

Both sides of the word count run in one `local[2]` session on one broker, in turn, over the same
topic: lines of ten words out of 10,000. `HEADRACE_BENCH_SCALE` (1.0) makes every run shorter or
longer, `HEADRACE_BENCH_ROUNDS` (3) says how often the two sides take turns, and
`HEADRACE_BENCH_FLOW` names the groups of rows to run, with commas between.
"""

import json
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench import end_to_end, rdkafka_client
from bench.broker_pair import Broker, headrace, new_topic
from bench.row import Row, alternate, median, seconds, spread
from bench.spark_session import bench_session
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
from testkit.peer.spark_session import stop_java
from testkit.peer.transactional import read_to_end

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
CHOSEN = os.environ.get("HEADRACE_BENCH_FLOW", "")

PARTITIONS = 4
WORDS_A_LINE = 10
WORDS = int(10_000_000 * SCALE)
DISTINCT_WORDS = 10_000
KEYS = 1_000
BATCH_TUPLES = 200_000
BATCHES = max(6, int(20 * SCALE))
RATE = 1_000
LATENCY_COUNT = max(5 * RATE, int(20 * RATE * SCALE))
EVENTS = int(2_000_000 * SCALE)
CAMPAIGNS, ADS_A_CAMPAIGN = 100, 10
_START_SECONDS = 300.0
_NOW: dict[str, Any] = {"availableNow": True}

_numbers = count(1)


class Ground:
    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self.broker = folder, broker
        self.spark = bench_session(folder)

    def checkpoint(self) -> Path:
        return self.folder / f"checkpoint-{next(_numbers)}"

    def produce(self, values: list[bytes], records: int) -> str:
        topic = new_topic(self.broker, PARTITIONS)
        rdkafka_client.produce(
            self.broker.address, topic, values, records=records, partitions=PARTITIONS
        )
        return topic

    def run(self, topology: Topology) -> list[Any]:
        """Everything that is there; Spark's report of each batch."""
        query = start(
            topology.plan(),
            self.spark,
            brokers=self.broker.address,
            checkpoint=self.checkpoint(),
            trigger=_NOW,
        )
        query.awaitTermination()
        return list(query.recentProgress)


def run() -> list[Row]:
    rows: list[Row] = []
    with _ground() as ground:
        for name, group in _GROUPS.items():
            if not CHOSEN or name in CHOSEN.split(","):
                rows += group(ground)
    return rows


@contextmanager
def _ground() -> Iterator[Ground]:
    folder = Path(
        tempfile.mkdtemp(prefix="headrace-bench-", dir=os.environ.get("HEADRACE_BENCH_DIR"))
    )
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
    made = Topology(f"words-{next(_numbers)}", dead_letters=None)
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
    name = f"by-hand-{next(_numbers)}"
    writer = counts.writeStream.outputMode("update").trigger(**_NOW)
    writer = writer.option("checkpointLocation", str(ground.checkpoint()))
    partitions = ground.spark.conf.get("spark.sql.shuffle.partitions")
    ground.spark.conf.set("spark.sql.shuffle.partitions", "2")
    query = writer.foreachBatch(each_batch(name, {**options, "topic": target})).start()
    ground.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
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
    made = Topology(f"state-{next(_numbers)}", dead_letters=None)
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
    made.sink("out", TopicSink(new_topic(ground.broker, 1), key="key")).shuffle("count")
    reports = [each for each in ground.run(made) if each["numInputRows"]][BATCHES // 2 :]
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
            bar="≥ 200,000",
            reached=median(rates) >= 200_000,
        ),
        Row(
            name=f"{what}: a batch",
            ours=median(taken),
            unit="s",
            spread=spread(taken),
            bar="≤ 1",
            reached=median(taken) <= 1,
        ),
    ]


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
    made = Topology(f"latency-{next(_numbers)}", dead_letters=None, **options)
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


# -- the Yahoo streaming benchmark's job -----------------------------------------------------------


def yahoo(ground: Ground) -> list[Row]:
    """Views of ads, each joined with its campaign, counted by campaign and ten seconds."""
    chance = random.Random(11)
    ads = [f"ad{number}" for number in range(CAMPAIGNS * ADS_A_CAMPAIGN)]
    events = [
        json.dumps(
            {
                "user_id": f"user{chance.randrange(1000)}",
                "page_id": f"page{chance.randrange(100)}",
                "ad_id": chance.choice(ads),
                "ad_type": "banner",
                "event_type": chance.choice(["view", "click", "purchase"]),
                "event_time": 1_700_000_000_000 + number * 10,
                "ip_address": "1.2.3.4",
            }
        ).encode()
        for number in range(20_000)
    ]
    topic = ground.produce(events, EVENTS)
    _yahoo(ground, topic, ads)
    rates = [EVENTS / seconds(lambda: _yahoo(ground, topic, ads)) for _ in range(ROUNDS)]
    return [
        Row(
            name=f"Yahoo streaming benchmark's job, {EVENTS:,} JSON events",
            ours=median(rates),
            unit="events/s",
            spread=spread(rates),
        )
    ]


def _yahoo(ground: Ground, topic: str, ads: list[str]) -> None:
    of_ads = pa.array(ads)
    campaigns = pa.array([f"campaign{number // ADS_A_CAMPAIGN}" for number in range(len(ads))])

    def views(batch: pa.RecordBatch, emit: Emit) -> None:
        rows = pc.indices_nonzero(pc.equal(batch["event_type"], "view"))
        seen = batch.take(rows)
        of = campaigns.take(pc.index_in(seen["ad_id"], of_ads))
        start_ms = pc.multiply(pc.divide(seen["event_time"], 10_000), 10_000)
        emit([of, start_ms], rows=rows)

    made = Topology(f"yahoo-{next(_numbers)}", dead_letters=None)
    fields = "ad_id STRING, event_type STRING, event_time BIGINT"
    spout = TopicSpout(topic, brokers=ground.broker.address, fields=fields, format="json")
    made.spout("events", spout)
    made.bolt("views", views, output="campaign STRING, start_ms BIGINT").shuffle("events")
    counts = made.bolt("count", Aggregate(("campaign", "start_ms"), n="count"), parallelism=2)
    counts.fields("views", "campaign")
    target = new_topic(ground.broker, 1)
    made.sink("counts", TopicSink(target, key="campaign")).shuffle("count")
    ground.run(made)


_GROUPS: dict[str, Callable[[Ground], list[Row]]] = {
    "words": words,
    "state": state,
    "latency": latency,
    "yahoo": yahoo,
}
