"""Topologies on a real Spark session and a real broker.

What a bolt, a grouping or a window does is proved without Spark in `tests/unit/flow`; here is what
only Spark can show: that its operators carry, keep and commit what the runtime relies on.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace.flow.aggregate import Aggregate
from headrace.flow.job import run_batch, start
from headrace.flow.runtime.work import Emit, TaskContext
from headrace.flow.storm.bolt import Bolt, StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.spark.data_source import HeadraceDataSource
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.transactional import read_to_end

NOW: dict[str, Any] = {"availableNow": True}


class Name(Bolt):
    """Emits each tuple with its bolt's name and the number of the task that it reached."""

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, context: TaskContext) -> None:
        self.task = context.task

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        count = batch.num_rows
        emit([[self.name] * count, [self.task] * count, batch["word"]], rows=range(count))


class Count(StatefulBolt):
    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        counts = {
            each["values"]: each["counts"] for each in batch["word"].value_counts().to_pylist()
        }
        totals = {word: self.state.get(word, 0) + n for word, n in counts.items()}
        self.state.put_all(totals.items())
        emit([list(totals), list(totals.values())])


def split(line: str) -> list[str]:
    if line == "bad":
        raise ValueError("a bad line")
    return line.split()


def by_length(batch: pa.RecordBatch, tasks: int) -> list[int]:
    return [len(word) % tasks for word in batch["word"].to_pylist()]


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(HeadraceDataSource)


class Stage:
    """Topics of one's own, and a topology's way from one to the others."""

    def __init__(self, broker: BrokerProcess, spark: SparkSession, name: str, folder: Path) -> None:
        self.address, self.spark, self.name = broker.address, spark, name
        self.checkpoint = folder / "checkpoint"
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [NewTopic(self.topic("in"), 2, 1)]
        topics += [NewTopic(self.topic(each), 1, 1) for each in ("out", "batch", "dead", "metrics")]
        for made in admin.create_topics(topics).values():
            made.result(10)

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def feed(self, *lines: str) -> None:
        for number, line in enumerate(lines):
            self._producer.produce(self.topic("in"), line, partition=number % 2)
        assert self._producer.flush(30) == 0

    def topology(self, **options: Any) -> Topology:
        made = Topology(
            self.name,
            dead_letters=self.topic("dead"),
            settings={"metrics.topic": self.topic("metrics")},
            **options,
        )
        lines = TopicSpout(self.topic("in"), brokers=self.address, fields="value STRING")
        made.spout("lines", lines)
        made.bolt("split", split, output="word STRING").shuffle("lines")
        return made

    def run(self, topology: Topology) -> None:
        """Everything that is there, in one start."""
        query = start(
            topology.plan(),
            self.spark,
            brokers=self.address,
            checkpoint=self.checkpoint,
            trigger=NOW,
        )
        query.awaitTermination()

    def read(self, topic: str) -> list[Any]:
        return [json.loads(each) for each in read_to_end(self.address, self.topic(topic))]


@pytest.fixture
def stage(broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path) -> Stage:
    return Stage(broker, spark, topic, tmp_path)


def with_every_grouping(stage: Stage) -> Topology:
    made = stage.topology()
    for name, tasks in {"fields": 3, "all": 2, "global_": 2, "partial_key": 2, "custom": 2}.items():
        bolt = made.bolt(
            name, Name(name), output="bolt STRING, task BIGINT, word STRING", parallelism=tasks
        )
        more: tuple[Any, ...] = {
            "fields": ("word",),
            "partial_key": ("word",),
            "custom": (by_length,),
        }.get(name, ())
        getattr(bolt, name)("split", *more)
        made.sink(f"{name}-out", TopicSink(stage.topic("out"))).shuffle(name)
    return made


@pytest.mark.timeout(300)
def test_spark_carries_every_grouping_to_the_tasks_it_names(stage: Stage) -> None:
    words = [f"{word}{'x' * (n % 3)}" for n in range(10) for word in "abcdef"]
    stage.feed(*(" ".join(words[at : at + 6]) for at in range(0, len(words), 6)))

    stage.run(with_every_grouping(stage))

    found: dict[str, list[tuple[int, str]]] = {}
    for row in stage.read("out"):
        found.setdefault(row["bolt"], []).append((row["task"], row["word"]))
    tasks_of = {word: {t for t, w in found["fields"] if w == word} for word in words}
    assert {len(each) for each in tasks_of.values()} == {1}
    assert len({task for task, _ in found["fields"]}) > 1
    assert Counter(w for _, w in found["fields"]) == Counter(words)
    assert Counter(found["all"]) == Counter((task, word) for task in (0, 1) for word in words)
    assert Counter(found["global_"]) == Counter((0, word) for word in words)
    assert Counter(w for _, w in found["partial_key"]) == Counter(words)
    assert Counter(found["custom"]) == Counter((len(word) % 2, word) for word in words)


@pytest.mark.timeout(300)
def test_a_state_outlives_its_query_and_a_bad_tuple_becomes_a_dead_letter(stage: Stage) -> None:
    def counting() -> Topology:
        made = stage.topology()
        count = made.bolt("count", Count(), output="word STRING, n BIGINT", parallelism=2)
        count.fields("split", "word")
        made.sink("out", TopicSink(stage.topic("out"), key="word")).shuffle("count")
        return made

    stage.feed("a b a", "bad", "c a")
    stage.run(counting())
    stage.feed("a c")
    stage.run(counting())

    totals = {row["word"]: row["n"] for row in stage.read("out")}
    assert totals == {"a": 4, "b": 1, "c": 2}
    assert len(stage.read("out")) == 5
    assert stage.read("dead") == [{"value": "bad"}]
    executed: Counter[str] = Counter()
    for row in stage.read("metrics"):
        executed[row["component"]] += row["executed"]
    # Two bolts' worth of words, but every line was read once.
    assert executed["lines"] == 4
    assert executed["count"] == 7


@pytest.mark.timeout(300)
def test_totals_that_spark_adds_up_are_the_same_in_a_stream_and_in_a_batch(stage: Stage) -> None:
    def totals(target: str) -> Topology:
        made = stage.topology()
        words = Aggregate("word", n="count", least="min(word)", kinds="distinct(word)")
        made.bolt("totals", words, parallelism=2).fields("split", "word")
        made.sink("out", TopicSink(stage.topic(target), key="word")).shuffle("totals")
        return made

    stage.feed("a b a", "bad", "c a")
    stage.run(totals("out"))
    stage.feed("a c", "d")
    stage.run(totals("out"))
    streamed = stage.read("out")
    run_batch(totals("batch").plan(), stage.spark, brokers=stage.address)

    assert stage.read("dead") == [{"value": "bad"}] * 2  # one of them from the batch
    last = {row["word"]: row for row in streamed}
    assert len(streamed) == 6  # only what changed was written again
    assert {row["word"]: row for row in stage.read("batch")} == last
    assert last["a"] == {"word": "a", "n": 4, "least": "a", "kinds": 1}
