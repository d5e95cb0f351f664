"""Tuples that a bolt raised for, as records."""

import json
from typing import Any

import pyarrow as pa
import pytest

from headrace.flow.plan.plan import DEFAULT_STREAM
from headrace.flow.plan.stage import stage_layout
from headrace.flow.runtime.dead_letter import dead_letters
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.stage_map import open_records
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.tuple_batch import ORIGIN, TupleBatch, no_origin
from headrace.flow.storm.bolt import Bolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

MOMENT = pa.timestamp("us", "UTC")
AFTER_9999 = 10**18
ERROR = ValueError("no such page")


def test_a_record_has_the_tuple_the_error_and_the_origin() -> None:
    origin = pa.RecordBatch.from_pylist(
        [{"_topic": "clicks", "_partition": 1, "_offset": 7}], schema=ORIGIN
    )
    tuples = TupleBatch(pa.record_batch({"page": ["é"], "raw": [b"\xff"]}), origin)

    [letters] = dead_letters("dead", "count", tuples, ERROR)

    [record] = letters.to_pylist()
    assert record["topic"] == "dead"
    assert json.loads(record["value"]) == {"page": "é", "raw": "\\xff"}
    assert {each["key"]: each["value"] for each in record["headers"]} == {
        "component": b"count",
        "error": b"ValueError: no such page",
        "topic": b"clicks",
        "partition": b"1",
        "offset": b"7",
    }


def test_many_tuples_are_few_batches_of_bounded_size() -> None:
    texts = [f"{each:05}" * 200 for each in range(2_500)]
    tuples = TupleBatch(pa.record_batch({"page": texts}), no_origin(len(texts)))

    batches = list(dead_letters("dead", "count", tuples, ERROR))

    assert [json.loads(each.as_py())["page"] for one in batches for each in one["value"]] == texts
    assert len(batches) == 3
    assert max(each.nbytes for each in batches) < 2 * 1024 * 1024


def test_a_long_error_is_whole_only_with_the_first_of_many_tuples() -> None:
    count, error = 2_000, ValueError("x" * 3_000)
    tuples = TupleBatch(pa.record_batch({"n": list(range(count))}), no_origin(count))

    batches = list(dead_letters("dead", "count", tuples, error))

    records = [row for each in batches for row in each.to_pylist()]
    errors = [
        len(header["value"])
        for row in records
        for header in row["headers"]
        if header["key"] == "error"
    ]
    assert [json.loads(row["value"])["n"] for row in records] == list(range(count))
    assert (errors[0], errors[-1]) == (2_000, 200)
    assert sum(each.nbytes for each in batches) < 2 * 1024 * 1024


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (MOMENT, AFTER_9999, str(AFTER_9999)),
        (pa.date32(), 10**7, str(10**7)),
        (pa.list_(MOMENT), [AFTER_9999], str(AFTER_9999)),
        (pa.struct([("at", MOMENT)]), {"at": AFTER_9999}, str(AFTER_9999)),
        (pa.map_(pa.string(), MOMENT), [("at", AFTER_9999)], str(AFTER_9999)),
    ],
)
def test_a_time_that_python_does_not_have_is_written(
    kind: pa.DataType, value: Any, written: str
) -> None:
    columns = pa.record_batch({"at": pa.array([value, None], kind), "page": ["x", "y"]})

    [letters] = dead_letters("dead", "count", TupleBatch(columns, no_origin(2)), ERROR)

    first, second = (json.loads(each.as_py()) for each in letters["value"])
    assert written in str(first["at"])
    assert first["page"] == "x"
    assert second == {"at": None, "page": "y"}


def test_an_error_with_half_a_surrogate_pair_is_written() -> None:
    tuples = TupleBatch(pa.record_batch({"page": ["x"]}), no_origin(1))

    [letters] = dead_letters("dead", "count", tuples, ValueError("not \udc80"))

    headers = {each["key"]: each["value"] for each in letters.to_pylist()[0]["headers"]}
    assert headers["error"] == b"ValueError: not \\udc80"


class Days(Bolt):
    """Reads times as Python's."""

    def execute(self, batch: pa.RecordBatch, emit: Any) -> None:
        emit([[each.isoformat() for each in batch["timestamp"].to_pylist()]])


def plan_run(bolt: Bolt, fields: str) -> PlanRun:
    topology = Topology("days", dead_letters="dead")
    topology.spout("lines", TopicSpout("lines", brokers="b:9092", fields=fields))
    topology.bolt("days", bolt, output="value STRING").shuffle("lines")
    topology.sink("out", TopicSink("out", value="value")).shuffle("days")
    plan = topology.plan()
    return PlanRun(plan, stage_layout(plan), bolt.__class__.__name__)


def test_a_tuple_with_a_time_after_the_year_9999_stops_no_other() -> None:
    run = plan_run(Days(), "timestamp TIMESTAMP")
    columns = pa.record_batch({"timestamp": pa.array([0, AFTER_9999], MOMENT)})
    stage = StageRun(run, 0)

    stage.spout(run.component("lines"), TupleBatch(columns, no_origin(2)), DEFAULT_STREAM)

    records = [row for each in open_records(stage.finish()) for row in each.to_pylist()]
    assert sorted((each["topic"], each["value"]) for each in records) == [
        ("dead", b'{"timestamp": 1000000000000000000}'),
        ("out", b"1970-01-01T00:00:00+00:00"),
    ]
