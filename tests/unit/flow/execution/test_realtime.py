"""Which plans run in Spark's real-time mode, and why the others do not."""

from typing import Any

import pytest

from headrace.flow.execution.realtime import why_not_realtime
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.select import Select
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


class RecordingSession:
    """Stands for a session, its reader and its DataFrame; keeps the reader's options."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.readStream = self

    def format(self, name: str) -> "RecordingSession":
        return self

    def options(self, **given: str) -> "RecordingSession":
        self.given = given
        return self

    def load(self) -> "RecordingSession":
        return self

    def selectExpr(self, *_: str) -> "RecordingSession":  # noqa: N802 - Spark's name
        return self


def copying(**options: Any) -> Topology:
    made = Topology("copy", latency="realtime", **{"guarantee": "at-least-once", **options})
    fields = options.get("fields", "key BINARY, value STRING")
    made.spout("in", TopicSpout("in", brokers="127.0.0.1:1", fields=fields))
    made.sink("out", TopicSink("out", key="key", value="value")).shuffle("in")
    return made


def chain(totals: Aggregate) -> Topology:
    made = Topology("chain", latency="realtime", guarantee="at-least-once")
    fields = "page STRING, ms INT"
    made.spout("in", TopicSpout("in", brokers="127.0.0.1:1", fields=fields, format="json"))
    made.bolt("some", Select(where="ms > 1")).shuffle("in")
    made.bolt("totals", totals).fields("some", "page")
    made.sink("out", TopicSink("out", key="page")).shuffle("totals")
    return made


def test_a_copy_of_a_topic_can_run_in_real_time() -> None:
    assert why_not_realtime(copying().plan()) is None


def test_only_committed_records_are_read_in_real_time() -> None:
    spark = RecordingSession()
    spout = TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING")

    spout.kafka_frame(spark)

    assert spark.given["kafka.isolation.level"] == "read_committed"


def test_a_bolt_in_python_cannot_run_in_real_time() -> None:
    made = copying()
    made.bolt("upper", lambda key, value: value, output="x STRING").shuffle("in")

    assert "upper is a bolt" in str(why_not_realtime(made.plan()))


def test_selects_and_an_aggregate_can_run_in_real_time() -> None:
    made = chain(Aggregate("page", n="count", mean="mean(ms)"))

    assert why_not_realtime(made.plan()) is None


def test_a_measure_that_spark_does_not_have_is_named() -> None:
    made = chain(Aggregate("page", best="top(ms, 3)"))

    assert "the measure best of totals" in str(why_not_realtime(made.plan()))


def test_two_branches_are_not_a_chain() -> None:
    made = chain(Aggregate("page", n="count"))
    made.bolt("more", Select(where="ms > 2")).shuffle("in")

    assert "totals" not in str(why_not_realtime(made.plan()))
    assert "all read in" in str(why_not_realtime(made.plan()))


def test_avro_is_read_in_python() -> None:
    made = Topology("copy", guarantee="at-least-once")
    schema = {"valueSchema": '{"type": "record", "name": "r", "fields": []}'}
    fields = "value STRING"
    spout = TopicSpout("in", brokers="127.0.0.1:1", fields=fields, format="avro", options=schema)
    made.spout("in", spout)

    assert "not made of a topic's records" in str(why_not_realtime(made.plan()))


def test_sparks_sink_is_not_exactly_once() -> None:
    made = copying(guarantee="exactly-once")

    assert "at least once" in str(why_not_realtime(made.plan()))


@pytest.mark.parametrize(
    ("sink", "expression"),
    [
        (
            TopicSink("out", key="key", value="value"),
            "named_struct('topic', 'out', 'key', key,"
            " 'value', CAST(CAST(value AS STRING) AS BINARY))",
        ),
        (
            TopicSink("out"),
            "named_struct('topic', 'out', 'key', CAST(NULL AS BINARY), 'value',"
            " CAST(to_json(named_struct('key', key, 'value', value)) AS BINARY))",
        ),
    ],
)
def test_a_sink_expresses_its_record_in_sql(sink: TopicSink, expression: str) -> None:
    fields = TopicSpout("in", brokers="127.0.0.1:1", fields="key BINARY, value STRING").fields

    assert sink.expression(fields) == expression
