"""Which aggregates Spark computes itself, and the stages before and after it."""

from typing import Any

import pyarrow as pa
import pytest

from headrace.flow.execution.spark_aggregate import spark_aggregate
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.plan import Plan
from headrace.flow.plan.stage import stage_layout
from headrace.flow.runtime.aggregate_stage import AggregateFeed, AggregateTail
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


def words(aggregate: Aggregate, tasks: int = 2) -> tuple[Topology, Any]:
    made = Topology("words", settings={"metrics.topic": "metrics"})
    made.spout("lines", TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING"))
    made.bolt("number", lambda value: (value, int(value)), output="word STRING, n INT").shuffle(
        "lines"
    )
    inputs = made.bolt("totals", aggregate, parallelism=tasks)
    made.sink("out", TopicSink("out")).shuffle("totals")
    return made, inputs


def chosen(plan: Plan) -> str | None:
    found = spark_aggregate(plan, stage_layout(plan))
    return None if found is None else found.name


@pytest.mark.parametrize("fields", [("word",), ("word", "n")])
def test_spark_aggregates_if_all_tuples_of_a_key_reach_one_task(fields: tuple[str, ...]) -> None:
    made, inputs = words(Aggregate(("word", "n"), c="count"))
    inputs.fields("number", *fields)

    assert chosen(made.plan()) == "totals"


def test_one_task_has_every_key_whatever_the_grouping() -> None:
    made, inputs = words(Aggregate("word", c="count"), tasks=1)
    inputs.shuffle("number")

    assert chosen(made.plan()) == "totals"


def test_tasks_that_share_a_key_have_totals_of_their_own() -> None:
    made, inputs = words(Aggregate("word", c="count"))
    inputs.partial_key("number", "word")

    assert chosen(made.plan()) is None


def test_a_measure_that_spark_does_not_have_is_computed_in_python() -> None:
    made, inputs = words(Aggregate("word", best="top(n, 3)"))
    inputs.fields("number", "word")

    assert chosen(made.plan()) is None


def test_another_state_in_the_plan_keeps_the_aggregate_in_python() -> None:
    made, inputs = words(Aggregate("word", c="count"))
    inputs.fields("number", "word")
    made.bolt("other", StatefulBolt(), output="x STRING").fields("number", "word")

    assert chosen(made.plan()) is None


def lines(*values: str) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "topic": ["in"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": list(range(count)),
            "value": list(values),
        }
    )


def plan_run() -> PlanRun:
    made, inputs = words(Aggregate("word", c="count", s="sum(n)"), tasks=1)
    inputs.fields("number", "word")
    plan = made.plan()
    return PlanRun(plan, stage_layout(plan), "a run")


def test_a_task_sends_a_row_per_key_and_a_pass_through_row_for_its_records() -> None:
    fed = pa.Table.from_batches(
        AggregateFeed(plan_run(), "lines", "totals")([lines("1", "2"), lines("1", "x")])
    ).to_pylist()

    totals = {row["word"]: (row["_p0"], row["_p1"]) for row in fed if row["_pass_key"] is None}
    assert totals == {"1": (2, 2), "2": (1, 2)}
    (passed,) = [row for row in fed if row["_pass_key"] is not None]
    topics = pa.ipc.open_stream(passed["_records"]).read_all()["topic"].to_pylist()
    assert set(topics) == {"words-dead-letters", "metrics"}


def test_totals_and_pass_through_records_reach_their_topics() -> None:
    fed = pa.Table.from_batches(
        AggregateFeed(plan_run(), "lines", "totals")([lines("1", "x", "1")])
    ).combine_chunks()
    # What Spark's aggregate returns for rows with different keys.
    summed = fed.select(["word", "_pass_key", "_p0", "_p1", "_records"]).rename_columns(
        ["word", "_pass_key", "c", "s", "_records"]
    )

    made = pa.Table.from_batches(
        AggregateTail(plan_run(), "totals")(summed.to_batches())
    ).to_pylist()

    values = {row["topic"]: row["value"] for row in made if row["topic"] != "metrics"}
    assert values == {
        "out": b'{"word":"1","c":2,"s":2}',
        "words-dead-letters": b'{"value": "x"}',
    }
