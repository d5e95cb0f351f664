"""Aggregates: in a task's state, and as partial totals that Spark adds up."""

import json
import random
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.fields import Fields
from headrace.flow.runtime.builtin.sketch import estimate, sketch
from headrace.flow.runtime.partial import PartialColumns, PartialTotals
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.testing.flow_run import FlowRun

EVERYTHING = {
    "n": "count",
    "total": "sum(ms)",
    "least": "min(ms)",
    "most": "max(ms)",
    "average": "mean(ms)",
    "best": "top(ms, 2)",
    "users": "distinct(user)",
    "about": "approx_distinct(user)",
}


def parse(line: str) -> tuple[str, int | None, str]:
    page, ms, user = line.split()
    return page, None if ms == "-" else int(ms), user


def totals(aggregate: Aggregate) -> FlowRun:
    made = Topology("totals", dead_letters=None)
    made.spout("lines", TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING"))
    made.bolt("parse", parse, output="page STRING, ms INT, user STRING").shuffle("lines")
    made.bolt("totals", aggregate, parallelism=2).fields("parse", *aggregate.by or ("page",))
    made.sink("out", TopicSink("out")).shuffle("totals")
    return FlowRun(made.plan())


def test_every_measure_over_two_batches() -> None:
    run = totals(Aggregate("page", **EVERYTHING))

    run.feed(["a 5 ann", "a 9 bob", "b 1 ann"], ["a - ann"])
    run.restart()
    run.feed(["a 7 cid"])

    assert json.loads(run.values("out")[-1]) == {
        "page": "a",
        "n": 4,
        "total": 21,
        "least": 5,
        "most": 9,
        "average": 7.0,
        "best": [9, 7],
        "users": 3,
        "about": 3,
    }


def test_only_keys_that_came_are_emitted() -> None:
    run = totals(Aggregate("page", n="count"))
    run.feed(["a 1 x", "b 1 x"])
    run.take("out")

    run.feed(["b 1 x"])

    assert [json.loads(each) for each in run.values("out")] == [{"page": "b", "n": 2}]


def test_a_key_of_nulls_only_has_no_least_value() -> None:
    run = totals(Aggregate("page", least="min(ms)", n="count"))

    run.feed(["a - x"])

    assert json.loads(run.values("out")[0]) == {"page": "a", "least": None, "n": 1}


def test_partial_totals_of_any_division_add_up_to_the_same() -> None:
    chance = random.Random(3)
    rows = [(chance.choice("abc"), chance.randrange(100), chance.choice("xyz")) for _ in range(500)]
    fields = Fields.parse("page STRING, ms INT, user STRING")
    aggregate = Aggregate(
        "page", n="count", s="sum(ms)", m="mean(ms)", lo="min(ms)", u="distinct(user)"
    )
    columns = PartialColumns(aggregate, fields)
    partials = [PartialTotals(columns) for _ in range(3)]
    for at in range(0, 500, 50):
        part = pa.RecordBatch.from_arrays(
            [
                pa.array(each, kind)
                for each, kind in zip(
                    zip(*rows[at : at + 50], strict=True), fields.schema.types, strict=True
                )
            ],
            schema=fields.schema,
        )
        partials[chance.randrange(3)].add(part)

    folded = columns.fold(pa.concat_tables([totals.close() for totals in partials]))

    found: dict[str, Any] = defaultdict(lambda: [0, 0, 0.0, 0, 99, set()])
    for row in folded.to_pylist():
        each = found[row["page"]]
        each[0] += row["_p0"]
        each[1] += row["_p1"]
        each[2] += row["_p2"]
        each[3] += row["_q2"]
        each[4] = min(each[4], row["_p3"])
        each[5].add(row["_d4"])
    for page in "abc":
        mine = [(ms, user) for name, ms, user in rows if name == page]
        numbers = [ms for ms, _ in mine]
        assert found[page] == [
            len(mine),
            sum(numbers),
            sum(numbers),
            len(mine),
            min(numbers),
            {u for _, u in mine},
        ]


@pytest.mark.parametrize(
    ("measure", "complaint"),
    [
        ("median(ms)", "write one of count, sum"),
        ("count(ms)", "takes no field"),
        ("sum", "needs a field"),
        ("top(ms)", "top alone takes a number"),
        ("sum(user)", "needs a number"),
        ("max(age)", "names the field 'age'"),
    ],
)
def test_an_impossible_measure_is_reported_before_anything_runs(
    measure: str, complaint: str
) -> None:
    with pytest.raises(FlowError, match=complaint):
        totals(Aggregate("page", it=measure))


@pytest.mark.parametrize("count", [10, 256, 1_000, 20_000, 300_000])
def test_a_sketch_is_off_by_a_few_percent_at_most(count: int) -> None:
    hashes = np.random.default_rng(5).integers(0, 2**64, count, dtype=np.uint64)
    made = None
    for part in np.array_split(hashes, 7):
        made = sketch(part, made)
    made = sketch(hashes[: count // 2], made)

    assert made is not None
    assert estimate(made) == pytest.approx(count, rel=0 if count <= 256 else 0.06)
