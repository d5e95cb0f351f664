"""A plan as a running Spark query."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.flow.execution.auditing import audited
from headrace.flow.execution.compile import Compiled, compile_plan
from headrace.flow.execution.realtime import start_realtime
from headrace.flow.execution.unfinished import skip_unfinished
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.plan.check import check
from headrace.flow.plan.plan import Guarantee, Latency, Plan
from headrace.flow.plan.stage import cut
from headrace.flow.runtime.record import RECORD_FIELDS

_SINK_GUARANTEE = {
    Guarantee.EXACTLY_ONCE: "exactly-once",
    Guarantee.AT_LEAST_ONCE: "at-least-once",
    Guarantee.AT_MOST_ONCE: "at-least-once",
}
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE_STORE = "spark.sql.streaming.stateStore"
_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
# Spark's other way to write a checkpoint asks a process, `readlink`, about every file: some thirty
# of them a batch. Both rename a file to its name once it is whole.
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# A sink's name is part of a topic's name, of which there may be 249 characters.
_SINK_ID_LENGTH = 100
_NO_SINK_ID = re.compile(r"[^A-Za-z0-9._-]")


def start(
    plan: Plan,
    spark: Any,
    *,
    brokers: str,
    checkpoint: Path,
    trigger: dict[str, Any] | None = None,
    metrics: MetricsServer | None = None,
) -> Any:
    """Start a plan, or go on where its checkpoint says; the query of Spark.

    Args:
        brokers: where its sinks write.
        trigger: what Spark's `trigger` takes, such as {"availableNow": True}.
        metrics: serves the figures of the run from here on; whoever made it closes it.

    Raises:
        FlowError: the plan has a mistake; Spark has not seen it then.
    """
    check(plan)
    if plan.latency is Latency.REALTIME:
        query = start_realtime(plan, spark, brokers=brokers, checkpoint=checkpoint, trigger=trigger)
    else:
        report_to = None
        if metrics is not None:
            report_to = metrics.listen(spark.conf.get("spark.driver.host"))
        with _tuned(spark, {**plan.settings, **_ending(plan, trigger)}, checkpoint):
            compiled = compile_plan(audited(plan), spark, streaming=True, report_to=report_to)
            if plan.guarantee is Guarantee.AT_MOST_ONCE:
                stateful = any(each.stateful for each in cut(plan).stages)
                skip_unfinished(checkpoint, stateful=stateful)
            query = _start_query(plan, spark, compiled, brokers, checkpoint, trigger)
    if metrics is not None:
        metrics.follow(plan.name, lambda: query.lastProgress)
    return query


def _start_query(
    plan: Plan,
    spark: Any,
    compiled: Compiled,
    brokers: str,
    checkpoint: Path,
    trigger: dict[str, Any] | None,
) -> Any:
    from headrace.flow.runtime import chunk_sink
    from headrace.spark.sink.each_batch import each_batch

    writer = compiled.frame.writeStream.queryName(plan.name)
    writer = writer.option("checkpointLocation", str(checkpoint))
    trigger = trigger or _ticking(plan)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    options = {"kafka.bootstrap.servers": brokers}
    if compiled.tail is not None:
        # Totals change what was written before, which a sink in Python may not.
        write = each_batch(
            _NO_SINK_ID.sub("-", plan.name)[:_SINK_ID_LENGTH],
            options,
            finish=compiled.tail,
            finished_schema=chunk_sink.RECORD_SCHEMA,
        )
        return writer.outputMode("update").foreachBatch(write).start()
    spark.dataSource.register(chunk_sink.ChunkDataSource)
    options["guarantee"] = _SINK_GUARANTEE[plan.guarantee]
    return writer.format(chunk_sink.FORMAT).options(**options).outputMode("append").start()


def run_batch(plan: Plan, spark: Any, *, brokers: str) -> None:
    """Run the same plan over what its spouts find now, and return when it is done."""
    from headrace.flow.runtime import chunk_sink

    with _tuned(spark, plan.settings):
        compiled = compile_plan(plan, spark, streaming=False)
        rows, sink = compiled.frame, chunk_sink.FORMAT
        if compiled.tail is not None:
            rows = rows.mapInArrow(compiled.tail.__call__, RECORD_FIELDS.ddl)
            sink = "headrace"
        spark.dataSource.register(chunk_sink.ChunkDataSource)
        writer = rows.write.format(sink).option("kafka.bootstrap.servers", brokers)
        writer.mode("append").save()


def _ticking(plan: Plan) -> dict[str, Any] | None:
    """A plan with a clock runs batches without tuples too: no more often than it must."""
    ticks = _ticks(plan)
    return (
        {"processingTime": f"{max(1, int(min(1.0, *ticks) * 1000))} milliseconds"}
        if ticks
        else None
    )


def _ending(plan: Plan, trigger: Mapping[str, Any] | None) -> dict[str, str]:
    """For a plan that runs over what is there: with a clock there is always another batch without
    tuples, and it would never be done."""
    if _ticks(plan) and "availableNow" in (trigger or {}):
        return {_EMPTY_BATCHES: "false"}
    return {}


def _ticks(plan: Plan) -> list[float]:
    return [each.tick_seconds for each in plan.components.values() if each.tick_seconds is not None]


@contextmanager
def _tuned(
    spark: Any, settings: Mapping[str, str], checkpoint: Path | None = None
) -> Iterator[None]:
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
    if _is_local(spark, checkpoint):
        wanted[_FILE_MANAGER] = _BY_FILE_SYSTEM
    wanted |= {key: value for key, value in settings.items() if key.startswith("spark.")}
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        if before[key] == value or (before[key] and not spark.conf.isModifiable(key)):
            # What the session was started with and cannot be set any more, such as its memory.
            del before[key]
        else:
            spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def _is_local(spark: Any, checkpoint: Path | None) -> bool:
    if checkpoint is None:
        return False
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
    return str(default).startswith("file:")
