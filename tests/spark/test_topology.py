"""Topologies on a real Spark session and a real broker.

`tests/unit/flow` tests bolts, groupings and windows without Spark. This file tests what needs
Spark: that its operators carry, keep and commit what the runtime relies on.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.flow.error import FlowError
from headrace.flow.execution import job
from headrace.flow.execution.failure import failure_of
from headrace.flow.execution.job import run_batch
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.slot_key import KEYS_ARE_SLOTS, spark_partition_of
from headrace.flow.plan.work import Emit, TaskContext
from headrace.flow.storm.bolt import Bolt, StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.topology import Topology
from headrace.spark.data_source import HeadraceDataSource
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.sample.topology_fixture import TopologyFixture

KEYS = "aaabcdef"  # one of them comes more often
GROUPINGS = {
    "fields": 3,
    "all": 2,
    "global_": 2,
    "partial_key": 3,
    "custom": 2,
    "direct": 3,
    "shuffle": 2,
}


class Name(Bolt):
    """Emits each tuple with its bolt's name and the number of the task that it reached."""

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, context: TaskContext) -> None:
        self.task = context.task

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        count = batch.num_rows
        emit(
            [[self.name] * count, [self.task] * count, batch["key"], batch["number"]],
            rows=range(count),
        )


class Count(StatefulBolt):
    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        counts = {
            each["values"]: each["counts"] for each in batch["word"].value_counts().to_pylist()
        }
        totals = {word: self.state.get(word, 0) + n for word, n in counts.items()}
        self.state.put_all(totals.items())
        emit([list(totals), list(totals.values())])


def parse(batch: pa.RecordBatch, emit: Emit) -> None:
    """Emit keys and numbers; on the stream `direct` each to the task of its number."""
    pairs = [line.split() for line in batch["value"].to_pylist()]
    columns = [[key for key, _ in pairs], [int(number) for _, number in pairs]]
    rows = range(batch.num_rows)
    emit(columns, rows=rows)
    emit(columns, stream="direct", rows=rows, task=[number % 3 for number in columns[1]])


def split(line: str) -> list[str]:
    if line == "bad":
        raise ValueError("a bad line")
    return line.split()


def by_number(batch: pa.RecordBatch, tasks: int) -> list[int]:
    return [number % tasks for number in batch["number"].to_pylist()]


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(HeadraceDataSource)


@pytest.fixture
def stage(
    broker: BrokerProcess, spark: SparkSession, topic: str, tmp_path: Path
) -> TopologyFixture:
    outputs = ("out", "batch", "dead", "metrics")
    return TopologyFixture(broker.address, spark, topic, tmp_path, outputs=outputs)


def words(stage: TopologyFixture) -> Topology:
    made = Topology(
        stage.name,
        dead_letters=stage.topic("dead"),
        settings={"metrics.topic": stage.topic("metrics")},
    )
    made.spout("lines", stage.lines())
    made.bolt("split", split, output="word STRING").shuffle("lines")
    return made


def with_every_grouping(stage: TopologyFixture) -> Topology:
    made = Topology(stage.name, dead_letters=None)
    made.spout("lines", stage.lines(per_batch=60))
    fields = "key STRING, number BIGINT"
    made.bolt("parse", parse, output={"default": fields, "direct": fields}).shuffle("lines")
    for name, tasks in GROUPINGS.items():
        bolt = made.bolt(
            name,
            Name(name),
            output="bolt STRING, task BIGINT, key STRING, number BIGINT",
            parallelism=tasks,
        )
        more: dict[str, tuple[Any, ...]] = {
            "fields": ("key",),
            "partial_key": ("key",),
            "custom": (by_number,),
            "direct": ("direct",),
        }
        getattr(bolt, name)("parse", *more.get(name, ()))
        made.sink(f"{name}-out", TopicSink(stage.topic("out"))).shuffle(name)
    return made


@pytest.mark.timeout(600)
def test_spark_carries_every_grouping_to_the_tasks_it_names(stage: TopologyFixture) -> None:
    # Lines go to the two partitions in turn: even numbers to one, odd ones to the other. Each has
    # every key, with numbers that grow.
    sent = [(key, number) for number in range(20) for key in KEYS]
    evens = [each for each in sent if each[1] % 2 == 0]
    odds = [each for each in sent if each[1] % 2 == 1]
    for pair in zip(evens, odds, strict=True):
        stage.feed(*(f"{key} {number}" for key, number in pair))

    stage.run(with_every_grouping(stage))

    found: dict[str, list[tuple[int, str, int]]] = {}
    for row in stage.read("out"):
        found.setdefault(row["bolt"], []).append((row["task"], row["key"], row["number"]))
    arrived = {name: Counter(each[1:] for each in rows) for name, rows in found.items()}
    once = Counter(sent)
    assert {name for name, each in arrived.items() if each == once} == GROUPINGS.keys() - {"all"}
    assert Counter(found["all"]) == Counter((task, *each) for task in (0, 1) for each in sent)
    _check_fields(found["fields"])
    assert {task for task, _, _ in found["global_"]} == {0}
    assert {(task, number % 2) for task, _, number in found["custom"]} == {(0, 0), (1, 1)}
    assert {(task, number % 3) for task, _, number in found["direct"]} == {(0, 0), (1, 1), (2, 2)}
    shared = {key: {task for task, each, _ in found["partial_key"] if each == key} for key in KEYS}
    assert max(len(tasks) for tasks in shared.values()) == len(shared["a"]) == 2


def _check_fields(rows: list[tuple[int, str, int]]) -> None:
    """Check that a key has one task, that every task has keys, and that a key keeps its order."""
    tasks_of = {key: {task for task, each, _ in rows if each == key} for key in KEYS}
    assert {len(each) for each in tasks_of.values()} == {1}
    assert len({task for task, _, _ in rows}) > 1
    for key in KEYS:
        for parity in (0, 1):
            numbers = [n for _, each, n in rows if each == key and n % 2 == parity]
            assert numbers == sorted(numbers), f"{key} lost its order"


@pytest.mark.timeout(600)
def test_a_state_outlives_its_query_and_a_bad_tuple_becomes_a_dead_letter(
    stage: TopologyFixture,
) -> None:
    def counting(target: str) -> Topology:
        made = words(stage)
        count = made.bolt("count", Count(), output="word STRING, n BIGINT", parallelism=2)
        count.fields("split", "word")
        made.sink("out", TopicSink(stage.topic(target), key="word")).shuffle("count")
        return made

    with MetricsServer() as metrics:
        stage.feed("a b a", "bad", "c a")
        stage.run(counting("out"), metrics)
        stage.feed("a c")
        stage.run(counting("out"), metrics)
        none_but_one = {"lines": 0, "split": 1, "count": 0, "out": 0}
        wait_until(
            lambda: _executed(metrics)["count"] == 7 and _failed(metrics) == none_but_one,
            what="the reports of all tasks",
        )
        figures = metrics.figures()

    totals = {row["word"]: row["n"] for row in stage.read("out")}
    assert totals == {"a": 4, "b": 1, "c": 2}
    assert len(stage.read("out")) == 5
    assert stage.read("dead") == [{"value": "bad"}]
    executed: Counter[str] = Counter()
    for row in stage.read("metrics"):
        executed[row["component"]] += row["executed"]
    # Two bolts read the words, but every line was read once.
    assert executed["lines"] == 4
    assert executed["count"] == 7
    assert (figures.lag, figures.state_rows > 0) == (0, True)

    # A batch over the same topic has the same result as the stream.
    run_batch(counting("batch").plan(), stage.spark, brokers=stage.address)
    assert {row["word"]: row["n"] for row in stage.read("batch")} == totals


def test_the_partition_of_a_slots_key_is_the_one_that_spark_chooses(spark: SparkSession) -> None:
    for partitions in (2, 7):
        rows = spark.range(300).selectExpr(
            "CAST(id AS INT) AS key", f"pmod(hash(CAST(id AS INT)), {partitions}) AS partition"
        )

        assert [spark_partition_of(row.key, partitions) for row in rows.sort("key").collect()] == [
            row.partition for row in rows.sort("key").collect()
        ]


@pytest.mark.timeout(600)
def test_a_flow_goes_on_with_the_states_of_an_earlier_version(
    broker: BrokerProcess,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = TopologyFixture(
        broker.address, spark, topic, tmp_path, outputs=("out", "dead", "metrics"), partitions=5
    )

    def counting() -> Topology:
        made = words(stage)
        count = made.bolt("count", Count(), output="word STRING, n BIGINT", parallelism=2)
        count.fields("split", "word")
        made.sink("out", TopicSink(stage.topic("out"), key="word")).shuffle("count")
        return made

    stage.feed("a b c d e f", "a b", "a", "b", "c", "d")
    with monkeypatch.context() as earlier:
        earlier.setattr(job, "checkpoint_keys", lambda *_: KEYS_ARE_SLOTS)
        stage.run(counting())
    stage.feed("a c e g", "a", "a")
    stage.run(counting())

    totals = {row["word"]: row["n"] for row in stage.read("out")}
    assert totals == {"a": 6, "b": 3, "c": 3, "d": 2, "e": 2, "f": 1, "g": 1}


@pytest.mark.timeout(600)
def test_an_edited_topology_that_would_not_find_its_state_is_refused(
    stage: TopologyFixture,
) -> None:
    def counting(tasks: int) -> Topology:
        made = words(stage)
        count = made.bolt("count", Count(), output="word STRING, n BIGINT", parallelism=tasks)
        count.fields("split", "word")
        made.sink("out", TopicSink(stage.topic("out"), key="word")).shuffle("count")
        return made

    stage.feed("a b c d")
    stage.run(counting(2))
    stage.feed("a b c d")
    with pytest.raises(FlowError, match="2 tasks of count, but the program has 3"):
        stage.run(counting(3))
    stage.run(counting(2))

    totals = {row["word"]: row["n"] for row in stage.read("out")}
    assert totals == {"a": 2, "b": 2, "c": 2, "d": 2}


def _executed(metrics: MetricsServer) -> Counter[str]:
    return Counter({each.component: each.executed for each in metrics.figures().components})


def _failed(metrics: MetricsServer) -> dict[str, int]:
    return {each.component: each.failed for each in metrics.figures().components}


@pytest.mark.timeout(600)
def test_totals_that_spark_adds_up_are_the_same_in_a_stream_and_in_a_batch(
    stage: TopologyFixture,
) -> None:
    def totals(target: str) -> Topology:
        made = words(stage)
        measured = Aggregate("word", n="count", least="min(word)", kinds="distinct(word)")
        made.bolt("totals", measured, parallelism=2).fields("split", "word")
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


@pytest.mark.timeout(600)
def test_a_bolt_that_raises_ends_the_query_with_its_name_and_its_own_lines(
    stage: TopologyFixture,
) -> None:
    made = Topology(stage.name, dead_letters=None)
    made.spout("lines", stage.lines())
    made.bolt("split", split, output="word STRING").shuffle("lines")
    made.sink("out", TopicSink(stage.topic("out"), value="word")).shuffle("split")
    stage.feed("bad")

    with pytest.raises(StreamingQueryException) as failed:
        stage.run(made)

    failure = failure_of(failed.value)
    place = f"offset 0 of {stage.topic('in')}-0"
    assert (failure.component, failure.at, failure.why) == (
        "split",
        place,
        "ValueError: a bad line",
    )
    assert [line.split(",")[0] for line in failure.lines] == [
        f'  File "{__file__}"',
        '    raise ValueError("a bad line")',
    ]
