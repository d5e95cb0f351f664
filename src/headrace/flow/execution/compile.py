"""A plan as one DataFrame of Spark, stage after stage."""

import uuid
from dataclasses import dataclass
from typing import Any

from headrace.flow.execution.progress_group import group_of
from headrace.flow.execution.spark_aggregate import aggregate_frame, spark_aggregate
from headrace.flow.plan.check import check
from headrace.flow.plan.plan import Kind, Plan
from headrace.flow.plan.stage import Layout, Stage, cut
from headrace.flow.runtime.aggregate_stage import AggregateTail
from headrace.flow.runtime.outlet import CHUNK_DDL
from headrace.flow.runtime.program import Program
from headrace.flow.runtime.report import ReportAddress
from headrace.flow.runtime.stage_map import BoltStage, SpoutStage


@dataclass(frozen=True, slots=True)
class Compiled:
    """What Spark is to run.

    Attributes:
        frame: chunks with the plan's records, for the sink in `chunk_sink`; or totals.
        tail: makes records of the totals that Spark has added up.
    """

    frame: Any
    tail: AggregateTail | None = None


def compile_plan(
    plan: Plan, spark: Any, *, streaming: bool, report_to: ReportAddress | None = None
) -> Compiled:
    """What a plan becomes.

    Args:
        streaming: over what comes, or over what is there.
        report_to: where tasks tell what they have counted.

    Raises:
        FlowError: the plan has a mistake.
    """
    check(plan)
    layout = cut(plan)
    program = Program(plan, layout, uuid.uuid4().hex, report_to)

    def spout(name: str, stage: Any, made: str) -> Any:
        work = program.component(name).work.in_group(group_of(plan.name))
        return work.staged(
            spark, stage, made, label=f"headrace-{program.run}-{name}", streaming=streaming
        )

    aggregate = spark_aggregate(plan, layout)
    if aggregate is not None:
        return Compiled(*aggregate_frame(program, aggregate, spout))
    spouts = [each.name for each in plan.components.values() if each.kind is Kind.SPOUT]
    frame = spout(spouts[0], SpoutStage(program, spouts[0]), CHUNK_DDL)
    for each in spouts[1:]:
        frame = frame.unionAll(spout(each, SpoutStage(program, each), CHUNK_DDL))
    for stage in layout.stages[1:]:
        frame = _stage(program, stage, frame, spark, streaming=streaming)
    return Compiled(frame)


def _stage(program: Program, stage: Stage, frame: Any, spark: Any, *, streaming: bool) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    if streaming and stage.stateful:
        # Imported here: it brings pandas and Spark's streaming API with it.
        from headrace.flow.runtime.stage_state import StageProcessor

        return frame.groupBy("slot").transformWithStateInPandas(
            StageProcessor(program, stage.number),
            outputStructType=CHUNK_DDL,
            outputMode="append",
            timeMode="ProcessingTime" if stage.ticks else "None",
        )
    tasks = min(_slots_of(program.layout, stage), int(spark.conf.get(_SHUFFLE_PARTITIONS)))
    spread = frame.repartitionById(tasks, F.pmod(F.col("slot"), F.lit(tasks)))
    work = BoltStage(program, stage.number, bounded=not streaming).__call__
    return spread.mapInArrow(work, CHUNK_DDL)


_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def _slots_of(layout: Layout, stage: Stage) -> int:
    return max(1, sum(len(layout.slots.get(each, ())) for each in stage.components))
