"""Spark's real-time mode: milliseconds instead of batches, for plans without Python.

Spark runs nothing but its own operators in that mode, between its own Kafka connector's source and
sink; a bolt of ours is Python. So what is left is to carry records from topics to topics, picking
fields for key and value. Everything else is refused, with the reason.
"""

from pathlib import Path
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan import Guarantee, Kind, Plan

_TRIGGER = {"realTime": "5 seconds"}


def why_not_realtime(plan: Plan) -> str | None:
    """What keeps a plan from real-time mode; None if nothing does."""
    bolts = [each.name for each in plan.components.values() if each.kind is Kind.BOLT]
    if bolts:
        return f"{bolts[0]} is a bolt, in Python, and Spark's mode runs its own JVM code only"
    if plan.guarantee is not Guarantee.AT_LEAST_ONCE:
        return "Spark's Kafka sink writes at least once: ask for guarantee='at-least-once'"
    spouts = [each for each in plan.components.values() if each.kind is Kind.SPOUT]
    if len(spouts) != 1:
        return f"it has {len(spouts)} spouts, and Spark's mode takes one source"
    spout = spouts[0]
    if not hasattr(spout.work, "kafka_frame") or getattr(spout.work, "format", None) is not None:
        return f"the spout {spout.name} is not a topic's records as they are"
    for each in plan.components.values():
        if each.kind is Kind.SINK and not hasattr(each.work, "expression"):
            return f"the sink {each.name} makes its records in Python"
    return None


def start_realtime(
    plan: Plan, spark: Any, *, brokers: str, checkpoint: Path, trigger: dict[str, Any] | None
) -> Any:
    """Start a plan in real-time mode; `session(realtime=True)` has the connector that it needs.

    Raises:
        FlowError: the plan cannot run so; the message says why.
    """
    why = why_not_realtime(plan)
    if why is not None:
        raise FlowError(f"{plan.name} cannot run with latency='realtime': {why}")
    spout = next(each for each in plan.components.values() if each.kind is Kind.SPOUT)
    sinks = [
        each.work.expression(plan.fields_of(source))
        for each in plan.components.values()
        if each.kind is Kind.SINK
        for source in each.inputs
    ]
    rows = spout.work.kafka_frame(spark)
    # Every sink's record of every tuple: one source, one output.
    records = rows.selectExpr(f"inline(array({', '.join(sinks)}))")
    writer = records.writeStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    writer = writer.option("checkpointLocation", str(checkpoint)).queryName(plan.name)
    return writer.outputMode("update").trigger(**(trigger or _TRIGGER)).start()
