"""The Yahoo streaming benchmark's job three ways: a topology, PySpark by hand, Kafka Streams.

Views of ads, each joined with its ad's campaign, are counted by campaign and ten seconds of event
time. All read the same topic of the same broker to its end, in turn, on the same two cores, each in
a JVM that has done the whole job before, and all results are compared with the right ones.

Measured is the time from the start of processing to the last result. For a query of Spark that is
from the start of its first batch to its end, for Kafka Streams from the first event that it
processes to the moment when a consumer has the last total: joining a group, making topics and
starting threads are not in it. The topology writes exactly once, Spark's sink at least once, and
Kafka Streams is run both ways.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.broker_pair import new_topic
from bench.flow_ground import NOW, ROUNDS, SCALE, Ground, shuffle_partitions
from bench.row import Row, median, spread
from bench.streams_job import StreamsJob
from headrace.flow.execution.job import start
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.work import Emit
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from testkit.peer.transactional import read_to_end

EVENTS = int(2_000_000 * SCALE)
DISTINCT_EVENTS = 20_000
WINDOW_MS = 10_000
CAMPAIGNS = {f"ad{number}": f"campaign{number // 10}" for number in range(1_000)}
FIELDS = "ad_id STRING, event_type STRING, event_time BIGINT"

Totals = dict[tuple[str, int], int]
"""Views by campaign and start of the window."""


def yahoo(ground: Ground) -> list[Row]:
    events = _events()
    right = _totals(events)
    topic = ground.produce([json.dumps(each).encode() for each in events], EVENTS)
    folder = ground.folder / "streams"
    views = sum(right.values())
    with StreamsJob(folder, ground.broker.address, topic, CAMPAIGNS) as streams:
        sides: dict[str, Callable[[str], float]] = {
            "ours": lambda target: _topology(ground, topic, target),
            "PySpark by hand": lambda target: _by_hand(ground, topic, target),
            "Kafka Streams, exactly once": lambda target: streams.run(
                target, "exactly_once_v2", views
            ),
            "Kafka Streams, at least once": lambda target: streams.run(
                target, "at_least_once", views
            ),
        }
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(-1, ROUNDS):  # the first round warms up
            for name, run in sides.items():
                os.sync()
                rate = EVENTS / _checked(ground, name, run, right)
                if number >= 0:
                    rates[name].append(rate)
    ours = rates.pop("ours")
    what = f"Yahoo job, {EVENTS:,} JSON events, from the start of processing to the last result"
    return [
        Row(
            name=f"{what}; against {peer}",
            ours=median(ours),
            theirs=median(theirs),
            unit="events/s",
            spread=spread(ours),
            bar="≥ 1×",
            reached=median(ours) >= median(theirs),
        )
        for peer, theirs in rates.items()
    ]


def _events() -> list[dict[str, Any]]:
    chance = random.Random(11)
    ads = list(CAMPAIGNS)
    return [
        {
            "user_id": f"user{chance.randrange(1000)}",
            "page_id": f"page{chance.randrange(100)}",
            "ad_id": chance.choice(ads),
            "ad_type": "banner",
            "event_type": chance.choice(["view", "click", "purchase"]),
            "event_time": 1_700_000_000_000 + number * 10,
            "ip_address": "1.2.3.4",
        }
        for number in range(DISTINCT_EVENTS)
    ]


def _totals(events: list[dict[str, Any]]) -> Totals:
    """What a right result has: the topic has the events in turn, again and again."""
    totals: Counter[tuple[str, int]] = Counter()
    for number, event in enumerate(events):
        times = EVENTS // len(events) + (number < EVENTS % len(events))
        if event["event_type"] == "view" and times:
            start_ms = event["event_time"] // WINDOW_MS * WINDOW_MS
            totals[CAMPAIGNS[event["ad_id"]], start_ms] += times
    return dict(totals)


def _checked(ground: Ground, name: str, run: Callable[[str], float], right: Totals) -> float:
    """Seconds of a run, whose last totals are the right ones."""
    target = new_topic(ground.broker, 1)
    taken = run(target)
    found: Totals = {}
    for value in read_to_end(ground.broker.address, target):
        total = json.loads(value)
        found[total["campaign"], total["start_ms"]] = total["n"]
    if found != right:
        wrong = {each for each in found.keys() | right if found.get(each) != right.get(each)}
        raise AssertionError(f"{name} counted wrongly: {sorted(wrong)[:5]} of {len(wrong)}")
    return taken


def _seconds(query: Any) -> float:
    """From the start of a query's first batch to its end."""
    query.awaitTermination()
    end = time.time()
    first = query.recentProgress[0]["timestamp"]
    return end - datetime.fromisoformat(first).timestamp()


def _topology(ground: Ground, topic: str, target: str) -> float:
    of_ads, campaigns = pa.array(CAMPAIGNS.keys()), pa.array(CAMPAIGNS.values())

    def views(batch: pa.RecordBatch, emit: Emit) -> None:
        rows = pc.indices_nonzero(pc.equal(batch["event_type"], "view"))
        seen = batch.take(rows)
        of = campaigns.take(pc.index_in(seen["ad_id"], of_ads))
        start_ms = pc.multiply(pc.divide(seen["event_time"], WINDOW_MS), WINDOW_MS)
        emit([of, start_ms], rows=rows)

    made = Topology(f"yahoo-{ground.number()}", dead_letters=None)
    spout = TopicSpout(topic, brokers=ground.broker.address, fields=FIELDS, format="json")
    made.spout("events", spout)
    made.bolt("views", views, output="campaign STRING, start_ms BIGINT").shuffle("events")
    counts = made.bolt("count", Aggregate(("campaign", "start_ms"), n="count"), parallelism=2)
    counts.fields("views", "campaign")
    made.sink("counts", TopicSink(target, key="campaign")).shuffle("count")
    query = start(
        made.plan(),
        ground.spark,
        brokers=ground.broker.address,
        checkpoint=ground.checkpoint(),
        trigger=NOW,
    )
    return _seconds(query)


def _by_hand(ground: Ground, topic: str, target: str) -> float:
    """Spark's own connector and functions, with as many partitions as there are cores."""
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    spark = ground.spark
    servers = {"kafka.bootstrap.servers": ground.broker.address}
    campaigns = spark.createDataFrame(list(CAMPAIGNS.items()), "ad_id STRING, campaign STRING")
    source = spark.readStream.format("kafka").options(**servers)
    records = source.options(subscribe=topic, startingOffsets="earliest").load()
    window = F.window(F.timestamp_millis("event_time"), f"{WINDOW_MS} milliseconds")
    counts = (
        records.select(F.from_json(F.col("value").cast("string"), FIELDS).alias("event"))
        .select("event.*")
        .where("event_type = 'view'")
        .join(F.broadcast(campaigns), "ad_id")
        .groupBy("campaign", window)
        .agg(F.count(F.lit(1)).alias("n"))
        .withColumn("start_ms", F.unix_millis("window.start"))
        .select(
            F.col("campaign").alias("key"),
            F.to_json(F.struct("campaign", "start_ms", "n")).alias("value"),
        )
    )
    writer = counts.writeStream.format("kafka").options(topic=target, **servers)
    writer = writer.option("checkpointLocation", str(ground.checkpoint()))
    with shuffle_partitions(spark, 2):
        query = writer.outputMode("update").trigger(**NOW).start()
    return _seconds(query)
