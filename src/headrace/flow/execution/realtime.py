"""Spark's real-time mode: milliseconds instead of batches, for plans without Python.

In that mode Spark runs only its own operators, between its own Kafka connector's source and sink.
It refuses a bolt in Python: "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST". So a plan
can run if Spark's SQL can express it: records of topics, `Select`s, one `Aggregate`, more
`Select`s, sinks. Every other plan is refused, with the reason.
"""

from collections.abc import Mapping
from typing import Any

from headrace.client.java_option import to_java
from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import Aggregate, Measure
from headrace.flow.plan.client_option import KAFKA, client_options
from headrace.flow.plan.plan import DEFAULT_STREAM, Guarantee, Kind, Plan, PlanComponent
from headrace.flow.plan.select import Select
from headrace.flow.plan.setting import prefixed
from headrace.flow.storage.location import Location

_TRIGGER = {"realTime": "5 seconds"}
_MEASURES = ("count", "sum", "min", "max", "mean", "approx_distinct")


def why_not_realtime(plan: Plan) -> str | None:
    """Return why a plan cannot run in real-time mode; None if it can."""
    if plan.guarantee is not Guarantee.AT_LEAST_ONCE:
        return "Spark's Kafka sink writes at least once: ask for guarantee='at-least-once'"
    spouts = [each for each in plan.components.values() if each.kind is Kind.SPOUT]
    if len(spouts) != 1:
        return f"it has {len(spouts)} spouts, and Spark's mode takes one source"
    spout = spouts[0]
    if not hasattr(spout.work, "kafka_frame") or getattr(spout.work, "format", None) == "avro":
        return f"the spout {spout.name} is not made of a topic's records by Spark's own functions"
    for each in plan.components.values():
        why = _why_not(plan, each)
        if why is not None:
            return why
    aggregates = [each.name for each in plan.components.values() if _aggregate(each) is not None]
    if len(aggregates) > 1:
        return f"{aggregates[1]} is its second aggregate, and Spark's mode takes one"
    return _why_no_chain(plan)


def _why_not(plan: Plan, component: PlanComponent) -> str | None:
    if component.kind is Kind.SINK and not hasattr(component.work, "expression"):
        return f"the sink {component.name} makes its records in Python"
    if component.kind is not Kind.BOLT:
        return None
    aggregate = _aggregate(component)
    if aggregate is None and not isinstance(component.work, Select):
        return (
            f"{component.name} is a bolt in Python, and Spark's mode runs its own JVM code only:"
            " what a Select or an Aggregate can say can run"
        )
    for name, each in ({} if aggregate is None else aggregate.measures).items():
        if each.function not in _MEASURES:
            return f"the measure {name} of {component.name} is none of {', '.join(_MEASURES)}"
    if len(component.inputs) > 1:
        return f"{component.name} has {len(component.inputs)} inputs, and Spark's mode takes one"
    return None


def _why_no_chain(plan: Plan) -> str | None:
    """Return why the components are not one chain that all sinks read the end of."""
    read_by: dict[str, list[PlanComponent]] = {}
    for each in plan.components.values():
        for source in each.inputs:
            read_by.setdefault(source.component, []).append(each)
    for name, readers in read_by.items():
        bolts = [each for each in readers if each.kind is Kind.BOLT]
        if len(bolts) > 1 or (bolts and len(readers) > 1):
            others = ", ".join(each.name for each in readers)
            return f"{others} all read {name}, and Spark's mode runs one chain of bolts"
    ends = {source.component for each in _sinks(plan) for source in each.inputs}
    return None if len(ends) == 1 else "it needs sinks, all of them at the end of its chain"


def _aggregate(component: PlanComponent) -> Aggregate | None:
    return getattr(component.work, "aggregate", None)


def _sinks(plan: Plan) -> list[PlanComponent]:
    return [each for each in plan.components.values() if each.kind is Kind.SINK]


def realtime_frame(plan: Plan, spark: Any) -> Any:
    """Return the records of a plan, as rows of Spark's own connector.

    Raises:
        FlowError: the plan cannot run in real-time mode; the message says why.
    """
    why = why_not_realtime(plan)
    if why is not None:
        raise FlowError(f"{plan.name} cannot run with latency='realtime': {why}")
    component = next(each for each in plan.components.values() if each.kind is Kind.SPOUT)
    rows = component.work.kafka_frame(spark, connector_options(plan.settings))
    while (following := _next_bolt(plan, component)) is not None:
        component = following
        rows = _bolt(component, rows)
    sinks = [
        each.work.expression(plan.fields_of(source))
        for each in _sinks(plan)
        for source in each.inputs
    ]
    # One row per tuple and sink, because Spark's mode has one output.
    return rows.selectExpr(f"inline(array({', '.join(sinks)}))")


def connector_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the `kafka.*` settings of a plan as Spark's own connector takes them."""
    names = {key.removeprefix(KAFKA): text for key, text in client_options(settings).items()}
    return {f"{KAFKA}{name}": text for name, text in to_java(names).items()}


def _next_bolt(plan: Plan, component: PlanComponent) -> PlanComponent | None:
    readers = plan.readers_of(component.name, DEFAULT_STREAM)
    return next((each for each, _ in readers if each.kind is Kind.BOLT), None)


def _bolt(component: PlanComponent, rows: Any) -> Any:
    outputs = component.outputs[DEFAULT_STREAM]
    aggregate = _aggregate(component)
    if aggregate is None:
        if component.work.where is not None:
            rows = rows.where(component.work.where.sql)
        return rows.selectExpr(*component.work.expressions(outputs))
    totals = [
        _total(each).cast(outputs.ddl_of(name)).alias(name)
        for name, each in aggregate.measures.items()
    ]
    return rows.groupBy(*aggregate.by).agg(*totals)


def _total(measure: Measure) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    if measure.field is None:
        return F.count(F.lit(1))
    function = {"mean": "avg", "approx_distinct": "approx_count_distinct"}
    return getattr(F, function.get(measure.function, measure.function))(measure.field)


def start_realtime(
    plan: Plan, spark: Any, *, brokers: str, checkpoint: Location, trigger: dict[str, Any] | None
) -> Any:
    """Start a plan in real-time mode; `session(realtime=True)` has the connector that it needs.

    Raises:
        FlowError: the plan cannot run in real-time mode; the message says why.
    """
    records = realtime_frame(plan, spark)
    options = {
        **connector_options(plan.settings),
        **prefixed(plan.settings, "sink."),
        "kafka.bootstrap.servers": brokers,
    }
    writer = records.writeStream.format("kafka").options(**options)
    writer = writer.option("checkpointLocation", checkpoint.text).queryName(plan.name)
    return writer.outputMode("update").trigger(**(trigger or _TRIGGER)).start()
