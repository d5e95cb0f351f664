"""Bolts that are written as expressions."""

import json

import pyarrow as pa
import pytest

from headrace.flow.error import FlowError
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.plan.expression import Expression
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.select import Select
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.testing.flow_run import FlowRun

BATCH = pa.record_batch(
    {
        "page": pa.array(["/A", "/b", None]),
        "ms": pa.array([5, None, 20], pa.int32()),
    }
)


def topology(select: Select, output: str = "") -> Topology:
    made = Topology("select")
    made.spout("in", TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING"))
    made.bolt("select", select, output=output).shuffle("in")
    made.sink("out", TopicSink("out")).shuffle("select")
    return made


@pytest.mark.parametrize(
    ("text", "wanted", "sql"),
    [
        ("ms", [5, None, 20], "`ms`"),
        ("ms * 2 + 1", [11, None, 41], "((`ms` * 2) + 1)"),
        ("ms - -1", [6, None, 21], "(`ms` - (-1))"),
        ("ms > 10", [False, None, True], "(`ms` > 10)"),
        ("not ms > 10", [True, None, False], "(NOT (`ms` > 10))"),
        ("ms > 10 or page == '/b'", [False, True, True], "((`ms` > 10) OR (`page` = '/b'))"),
        ("ms < 10 and page != 'x'", [True, None, False], "((`ms` < 10) AND (`page` <> 'x'))"),
        ("lower(page)", ["/a", "/b", None], "lower(`page`)"),
        ("length(page)", [2, 2, None], "char_length(`page`)"),
        ("concat(page, '!')", ["/A!", "/b!", None], "concat(`page`, '!')"),
        ("coalesce(page, 'none')", ["/A", "/b", "none"], "coalesce(`page`, 'none')"),
        ("is_null(ms)", [False, True, False], "isnull(`ms`)"),
        ("starts_with(page, '/A')", [True, False, None], "startswith(`page`, '/A')"),
        ("contains(page, 'b')", [False, True, None], "contains(`page`, 'b')"),
        ("'it''s'", ["its"] * 3, "'its'"),
        (r"'it\'s'", ["it's"] * 3, r"'it\'s'"),
    ],
)
def test_an_expression_has_a_value_and_a_form_in_sql(text: str, wanted: object, sql: str) -> None:
    expression = Expression(text)

    assert expression.compute(BATCH).to_pylist() == wanted
    assert expression.sql == sql


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ms >", "does not read"),
        ("ms / 2", "is not something that it can say"),
        ("__import__('os')", "there is no __import__"),
        ("page.upper()", "is not something that it can say"),
        ("1 < ms < 3", "is not something that it can say"),
        ("upper(page, page)", "does not take 2 arguments"),
        ("contains(page, page)", "looks for a text"),
        ("b'x' == page", "neither a number nor a text"),
        ("x" * 5_000, "longer than"),
    ],
)
def test_an_impossible_expression_is_refused(text: str, why: str) -> None:
    with pytest.raises(FlowError, match=why):
        Expression(text)


def test_a_filter_passes_what_is_true_and_keeps_the_fields() -> None:
    run = FlowRun(topology(Select(where="value > 'b'")).plan())

    run.feed(["a", "c", None, "d"])

    assert [json.loads(each) for each in run.values("out")] == [{"value": "c"}, {"value": "d"}]


def test_columns_become_what_the_output_says() -> None:
    select = Select(where="value != ''", size="length(value)", value="upper(value)")
    run = FlowRun(topology(select, "size BIGINT, value STRING").plan())

    run.feed(["ab", ""])

    assert run.values("out") == ['{"size":2,"value":"AB"}']


def test_its_columns_in_sql_have_the_types_of_the_output() -> None:
    select = Select(size="length(value)")

    assert select.expressions(Fields.parse("size BIGINT")) == [
        "CAST(char_length(`value`) AS BIGINT) AS `size`"
    ]


@pytest.mark.parametrize(
    ("select", "output", "why"),
    [
        (Select(where="nothing > 1"), "", "names the field 'nothing'"),
        (Select(a="value"), "b STRING", "declare these, in this order"),
        (Select(a="value"), "", "declare these, in this order"),
    ],
)
def test_a_mistake_is_reported_before_spark_starts(select: Select, output: str, why: str) -> None:
    with pytest.raises(FlowError, match=why):
        check_plan(topology(select, output).plan())
