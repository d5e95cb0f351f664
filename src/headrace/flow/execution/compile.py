"""A plan as one Spark DataFrame, stage after stage."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.flow.execution.progress_group import group_of
from headrace.flow.execution.spark_aggregate import aggregate_frame, spark_aggregate
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.plan.plan import Kind, Plan
from headrace.flow.plan.slot_key import KEYS_ARE_SLOTS, SlotKeys
from headrace.flow.plan.stage import Stage, StageLayout, stage_layout
from headrace.flow.runtime.aggregate_stage import AggregateTail
from headrace.flow.runtime.outlet import CHUNK_DDL
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.report import ReportAddress
from headrace.flow.runtime.spout_offset import MessageId
from headrace.flow.runtime.stage_map import BoltStage, SpoutStage
from headrace.spark.worker_socket import AcknowledgingFunction


@dataclass(frozen=True, slots=True)
class Compiled:
    """What Spark runs.

    Attributes:
        frame: chunks with the plan's records, for the sink in `chunk_sink`; or totals.
        tail: makes records of the totals that Spark has added up.
    """

    frame: Any
    tail: AggregateTail | None = None


def compile_plan(
    plan: Plan,
    spark: Any,
    *,
    streaming: bool,
    report_to: ReportAddress | None = None,
    failed: Mapping[str, tuple[MessageId, ...]] | None = None,
    keys: SlotKeys = KEYS_ARE_SLOTS,
) -> Compiled:
    """Return what Spark runs for a plan.

    Args:
        streaming: as a stream, or as a batch over the records there are.
        report_to: where tasks send what they have counted.
        failed: ids of tuples that an earlier process did not finish, by spout.
        keys: under which a stream's checkpoint has the states of slots.

    Raises:
        FlowError: the plan has a mistake.
    """
    check_plan(plan)
    layout = stage_layout(plan)
    plan_run = PlanRun(plan, layout, uuid.uuid4().hex, report_to)

    def spout(name: str, stage: Any, output_ddl: str) -> Any:
        component = plan_run.component(name)
        work = component.work.in_group(group_of(plan.name)).bound(
            plan.name,
            name,
            parallelism=component.parallelism,
            settings=plan.settings,
            failed=(failed or {}).get(name, ()),
        )
        return work.staged(
            spark,
            stage,
            output_ddl,
            label=f"headrace-{plan_run.id}-{name}",
            streaming=streaming,
        )

    aggregate = spark_aggregate(plan, layout)
    if aggregate is not None:
        return Compiled(*aggregate_frame(plan_run, aggregate, spout))
    spouts = [each.name for each in plan.components.values() if each.kind is Kind.SPOUT]
    frame = spout(spouts[0], SpoutStage(plan_run, spouts[0]), CHUNK_DDL)
    for each in spouts[1:]:
        frame = frame.unionAll(spout(each, SpoutStage(plan_run, each), CHUNK_DDL))
    for stage in layout.stages[1:]:
        frame = _stage(plan_run, stage, frame, spark, keys if streaming else None)
    return Compiled(frame)


def _stage(plan_run: PlanRun, stage: Stage, frame: Any, spark: Any, keys: SlotKeys | None) -> Any:
    """Return the rows of a later stage.

    Args:
        keys: those of a stream's slots; None for a batch.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    if keys is not None and stage.stateful:
        # Imported here: it loads pandas and Spark's streaming API.
        from headrace.flow.runtime.stage_state import StageProcessor

        if keys.keys is not None:
            slot, found = F.col("slot"), F.array(*map(F.lit, keys.keys))
            keyed = F.when(slot < 0, slot).otherwise(F.element_at(found, slot + 1))
            frame = frame.withColumn("slot", keyed)
        return frame.groupBy("slot").transformWithStateInPandas(
            StageProcessor(plan_run, stage.number, keys),
            outputStructType=CHUNK_DDL,
            outputMode="append",
            timeMode="ProcessingTime" if stage.ticks else "None",
        )
    tasks = min(_slots_of(plan_run.layout, stage), int(spark.conf.get(_SHUFFLE_PARTITIONS)))
    spread = frame.repartitionById(tasks, F.pmod(F.col("slot"), F.lit(tasks)))
    work = AcknowledgingFunction(BoltStage(plan_run, stage.number, bounded=keys is None))
    return spread.mapInArrow(work.__call__, CHUNK_DDL)


_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def _slots_of(layout: StageLayout, stage: Stage) -> int:
    return max(1, sum(len(layout.slots.get(each, ())) for each in stage.components))
