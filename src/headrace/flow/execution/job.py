"""Starting a plan: as a streaming query, or as a batch."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.flow.execution.activation import Activation
from headrace.flow.execution.auditing import audited
from headrace.flow.execution.checkpoint_keys import checkpoint_keys
from headrace.flow.execution.compile import Compiled, compile_plan
from headrace.flow.execution.connector_option import sink_options, with_source_options
from headrace.flow.execution.fail_unfinished import fail_unfinished, has_python_spout
from headrace.flow.execution.realtime import start_realtime
from headrace.flow.execution.rebalance import PARTITIONS
from headrace.flow.execution.session_tuning import tuned
from headrace.flow.execution.skip_unfinished import skip_unfinished
from headrace.flow.execution.spark_aggregate import spark_aggregate
from headrace.flow.execution.state_slots import check_state_slots, state_slots
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.plan.client_option import with_login, with_user_login
from headrace.flow.plan.plan import Guarantee, Latency, Plan
from headrace.flow.plan.slot_key import KEYS_ARE_SLOTS, SlotKeys
from headrace.flow.plan.stage import stage_layout
from headrace.flow.plan.work import Work
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.storage.checkpoint_store import open_checkpoint
from headrace.flow.storage.file_store import FileStore
from headrace.flow.storage.location import Location
from headrace.spark.worker_socket import AcknowledgingFunction

_SINK_GUARANTEE = {
    Guarantee.EXACTLY_ONCE: "exactly-once",
    Guarantee.AT_LEAST_ONCE: "at-least-once",
    Guarantee.AT_MOST_ONCE: "at-least-once",
}
_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
# A sink's name is part of a topic's name, which may have 249 characters.
_SINK_ID_LENGTH = 100
_NO_SINK_ID = re.compile(r"[^A-Za-z0-9._-]")


def start(
    plan: Plan,
    spark: Any,
    *,
    brokers: str,
    checkpoint: str | Path | Location,
    trigger: dict[str, Any] | None = None,
    metrics: MetricsServer | None = None,
) -> Any:
    """Start a plan, or continue where its checkpoint says, and return Spark's query.

    Args:
        brokers: where its sinks write.
        checkpoint: a folder, as a path or as a URI such as hdfs://host/words.
        trigger: the arguments of Spark's `trigger`, such as {"availableNow": True}.
        metrics: serves the figures of the run from now on. The caller closes it.

    Raises:
        FlowError: the plan has a mistake, the flow was deactivated, executors on other machines
            would not reach the checkpoint, or it has states of other components or tasks than the
            plan; Spark has not started it then.
        ConfigError: this user's client.properties ($HEADRACE_CLIENT_CONFIG) cannot be used.
    """
    check_plan(plan)
    plan = with_source_options(with_login(with_user_login(plan, brokers)))
    location = Location.of(checkpoint)
    store = open_checkpoint(spark, location)
    Activation(store).check(plan.name)
    _check_master(plan, spark)
    if plan.latency is Latency.REALTIME:
        query = start_realtime(plan, spark, brokers=brokers, checkpoint=location, trigger=trigger)
    else:
        report_to = None
        if metrics is not None:
            report_to = metrics.listen(*driver_addresses(spark.sparkContext.getConf()))
        with tuned(spark, {**plan.settings, **_ending(plan, trigger)}, store):
            keys = _keys(plan, spark, store)
            if plan.guarantee is Guarantee.AT_MOST_ONCE:
                stateful = any(each.stateful for each in stage_layout(plan).stages)
                skip_unfinished(store, stateful=stateful)
            failed = fail_unfinished(store) if has_python_spout(plan) else {}
            compiled = compile_plan(
                audited(plan),
                spark,
                streaming=True,
                report_to=report_to,
                failed=failed,
                keys=keys,
            )
            query = _start_query(plan, spark, compiled, brokers, location, trigger)
    if metrics is not None:
        metrics.serve_query(plan.name, lambda: query.lastProgress)
    return query


def _keys(plan: Plan, spark: Any, checkpoint: FileStore) -> SlotKeys:
    """Return the keys of the plan's slots, after a look at whose states the checkpoint has."""
    layout = stage_layout(plan)
    if not any(each.stateful for each in layout.stages):
        return KEYS_ARE_SLOTS
    # An aggregate of Spark's own has its state by key, wherever its tasks are.
    by_slot = spark_aggregate(plan, layout) is None
    check_state_slots(checkpoint, state_slots(plan) if by_slot else {})
    return checkpoint_keys(checkpoint, layout.slot_count, int(spark.conf.get(PARTITIONS)))


def _start_query(
    plan: Plan,
    spark: Any,
    compiled: Compiled,
    brokers: str,
    checkpoint: Location,
    trigger: dict[str, Any] | None,
) -> Any:
    from headrace.flow.runtime import chunk_sink
    from headrace.spark.sink.each_batch import each_batch

    writer = compiled.frame.writeStream.queryName(plan.name)
    writer = writer.option("checkpointLocation", checkpoint.text)
    trigger = trigger or _ticking(plan)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    options = {**sink_options(plan), "kafka.bootstrap.servers": brokers}
    if compiled.tail is not None:
        # Totals replace earlier ones (update mode), which Spark does not allow for a Python sink.
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
    """Run a plan as a batch over the records there are now, and return when it is done."""
    from headrace.flow.runtime import chunk_sink

    plan = with_source_options(with_login(with_user_login(plan, brokers)))
    _check_master(plan, spark)
    with tuned(spark, plan.settings):
        compiled = compile_plan(plan, spark, streaming=False)
        rows, sink = compiled.frame, chunk_sink.FORMAT
        if compiled.tail is not None:
            rows = rows.mapInArrow(AcknowledgingFunction(compiled.tail).__call__, RECORD_FIELDS.ddl)
            sink = "headrace"
        spark.dataSource.register(chunk_sink.ChunkDataSource)
        options = {**sink_options(plan), "kafka.bootstrap.servers": brokers}
        writer = rows.write.format(sink).options(**options)
        writer.mode("append").save()


def driver_addresses(conf: Any) -> tuple[str, str]:
    """Return where the driver listens, and the name by which tasks reach it: behind a service or a
    container's ports the two differ."""
    host = conf.get("spark.driver.host") or "127.0.0.1"
    return conf.get("spark.driver.bindAddress") or host, host


def _check_master(plan: Plan, spark: Any) -> None:
    for each in plan.components.values():
        if isinstance(each.work, Work):
            each.work.check_master(spark.sparkContext.master)


def _ticking(plan: Plan) -> dict[str, Any] | None:
    """Return the trigger of a plan that ticks: it runs batches without tuples too."""
    ticks = _ticks(plan)
    return (
        {"processingTime": f"{max(1, int(min(1.0, *ticks) * 1000))} milliseconds"}
        if ticks
        else None
    )


def _ending(plan: Plan, trigger: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the setting that lets a plan that ticks end with `availableNow`.

    With empty batches enabled, there would always be another one.
    """
    if _ticks(plan) and "availableNow" in (trigger or {}):
        return {_EMPTY_BATCHES: "false"}
    return {}


def _ticks(plan: Plan) -> list[float]:
    return [each.tick_seconds for each in plan.components.values() if each.tick_seconds is not None]
