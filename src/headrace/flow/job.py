"""A plan as a running Spark query."""

import json
from pathlib import Path
from typing import Any

from headrace.flow.compile import compile_plan
from headrace.flow.plan import Guarantee, Plan

# What a restarted query takes for a batch that is done; see `skip_unfinished`.
_DONE = "v1\n" + json.dumps({"nextBatchWatermarkMs": 0})

_SINK_GUARANTEE = {
    Guarantee.EXACTLY_ONCE: "exactly-once",
    Guarantee.AT_LEAST_ONCE: "at-least-once",
    Guarantee.AT_MOST_ONCE: "at-least-once",
}


def start(
    plan: Plan,
    spark: Any,
    *,
    brokers: str,
    checkpoint: Path,
    trigger: dict[str, Any] | None = None,
) -> Any:
    """Start a plan, or go on where its checkpoint says; the query of Spark.

    Args:
        brokers: where its sinks write.
        trigger: what Spark's `trigger` takes, such as {"availableNow": True}.

    Raises:
        FlowError: the plan has a mistake; Spark has not seen it then.
    """
    records = compile_plan(plan, spark, streaming=True)
    if plan.guarantee is Guarantee.AT_MOST_ONCE:
        skip_unfinished(checkpoint)
    writer = (
        records.writeStream.format("headrace")
        .option("kafka.bootstrap.servers", brokers)
        .option("guarantee", _SINK_GUARANTEE[plan.guarantee])
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .queryName(plan.name)
    )
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def run_batch(plan: Plan, spark: Any, *, brokers: str) -> None:
    """Run the same plan over what its spouts find now, and return when it is done."""
    records = compile_plan(plan, spark, streaming=False)
    records.write.format("headrace").option("kafka.bootstrap.servers", brokers).mode(
        "append"
    ).save()


def skip_unfinished(checkpoint: Path) -> None:
    """Let a batch that was begun and not finished count as done: at most once.

    Spark notes a batch's offsets before it runs, and that it is done after it. What was begun and
    not noted as done would be run again.
    """
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    if not offsets.is_dir():
        return
    begun = {int(each.name) for each in offsets.iterdir() if each.name.isdigit()}
    done = (
        {int(each.name) for each in commits.iterdir() if each.name.isdigit()}
        if commits.is_dir()
        else set()
    )
    for batch in sorted(begun - done):
        if batch > max(done, default=-1):
            commits.mkdir(exist_ok=True)
            (commits / str(batch)).write_text(_DONE)
