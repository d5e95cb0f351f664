"""A plan as a running Spark query."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.flow.check import check
from headrace.flow.compile import compile_plan
from headrace.flow.plan import Guarantee, Latency, Plan
from headrace.flow.realtime import start_realtime
from headrace.flow.spark_aggregate import spark_aggregate
from headrace.flow.stage import cut
from headrace.flow.unfinished import skip_unfinished

_SINK_GUARANTEE = {
    Guarantee.EXACTLY_ONCE: "exactly-once",
    Guarantee.AT_LEAST_ONCE: "at-least-once",
    Guarantee.AT_MOST_ONCE: "at-least-once",
}
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE_STORE = "spark.sql.streaming.stateStore"
_QUERY_SECONDS = 60.0


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
    check(plan)
    if plan.latency is Latency.REALTIME:
        return start_realtime(plan, spark, brokers=brokers, checkpoint=checkpoint, trigger=trigger)
    layout = cut(plan)
    updates = spark_aggregate(plan, layout) is not None
    if plan.guarantee is Guarantee.AT_MOST_ONCE:
        stateful = any(each.stateful for each in layout.stages)
        skip_unfinished(checkpoint, stateful=stateful)
    with _tuned(spark, plan.settings):
        records = compile_plan(plan, spark, streaming=True)
        writer = records.writeStream.queryName(plan.name)
        writer = writer.option("checkpointLocation", str(checkpoint))
        trigger = trigger or _ticking(plan)
        if trigger is not None:
            writer = writer.trigger(**trigger)
        if updates:
            return _start_updates(plan, writer, brokers)
        return (
            writer.format("headrace")
            .option("kafka.bootstrap.servers", brokers)
            .option("guarantee", _SINK_GUARANTEE[plan.guarantee])
            .outputMode("append")
            .start()
        )


def run_batch(plan: Plan, spark: Any, *, brokers: str) -> None:
    """Run the same plan over what its spouts find now, and return when it is done."""
    with _tuned(spark, plan.settings):
        records = compile_plan(plan, spark, streaming=False)
        writer = records.write.format("headrace").option("kafka.bootstrap.servers", brokers)
        writer.mode("append").save()


def _start_updates(plan: Plan, writer: Any, brokers: str) -> Any:
    """Totals change what was written before, which a sink in Python may not: see `each_batch`."""
    from headrace.spark.each_batch import each_batch

    known = threading.Event()
    name: list[str] = []

    def write(rows: Any, batch: int) -> None:
        if not known.wait(_QUERY_SECONDS):
            raise TimeoutError(f"{plan.name} was started, but its query has no name")
        each_batch(name[0], {"kafka.bootstrap.servers": brokers})(rows, batch)

    query = writer.outputMode("update").foreachBatch(write).start()
    # Spark keeps a query's id in its checkpoint: with it a batch that is done again is known.
    name.append(f"{plan.name}-{query.id}")
    known.set()
    return query


def _ticking(plan: Plan) -> dict[str, Any] | None:
    """A plan with a clock runs batches without tuples too: no more often than it must."""
    ticks = [
        each.tick_seconds for each in plan.components.values() if each.tick_seconds is not None
    ]
    return (
        {"processingTime": f"{max(1, int(min(1.0, *ticks) * 1000))} milliseconds"}
        if ticks
        else None
    )


@contextmanager
def _tuned(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """What suits a topology, unless its settings (spark.*) say otherwise.

    A query takes the session's settings along when it starts, so they can be put back.
    """
    wanted = {
        f"{_STATE_STORE}.providerClass": _ROCKS_DB,
        f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        # Spark's 200 are for a cluster; every one of them is a state store to commit.
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    }
    wanted |= {key: value for key, value in settings.items() if key.startswith("spark.")}
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
