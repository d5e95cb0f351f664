"""A plan as one DataFrame of Spark: stage after stage, then the records for the sink."""

import uuid
from typing import Any

from headrace.flow.check import check
from headrace.flow.plan import Kind, Plan
from headrace.flow.runtime.outlet import CHUNK_DDL
from headrace.flow.runtime.program import Program
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.runtime.stage_map import BoltStage, SpoutStage, open_records
from headrace.flow.spark_aggregate import aggregate_frame, spark_aggregate
from headrace.flow.stage import Layout, Stage, cut


def compile_plan(plan: Plan, spark: Any, *, streaming: bool) -> Any:
    """The records that a plan writes, as a DataFrame with the columns of the sink.

    Args:
        streaming: over what comes, or over what is there.

    Raises:
        FlowError: the plan has a mistake.
    """
    check(plan)
    layout = cut(plan)
    program = Program(plan, layout, uuid.uuid4().hex)
    frames = {
        each.name: each.work.frame(spark, streaming=streaming)
        for each in plan.components.values()
        if each.kind is Kind.SPOUT
    }
    aggregate = spark_aggregate(plan, layout)
    if aggregate is not None:
        return aggregate_frame(program, aggregate, frames)
    frame = _spouts(program, frames)
    for stage in layout.stages[1:]:
        frame = _stage(program, stage, frame, spark, streaming=streaming)
    if streaming and layout.stages[-1].stateful:
        frame = frame.mapInArrow(open_records, RECORD_FIELDS.ddl)
    return frame


def _spouts(program: Program, frames: dict[str, Any]) -> Any:
    last = len(program.layout.stages) == 1
    ddl = RECORD_FIELDS.ddl if last else CHUNK_DDL
    made = [
        frame.mapInArrow(SpoutStage(program, name, last).__call__, ddl)
        for name, frame in frames.items()
    ]
    frame = made[0]
    for each in made[1:]:
        frame = frame.unionAll(each)
    return frame


def _stage(program: Program, stage: Stage, frame: Any, spark: Any, *, streaming: bool) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    last = stage.number == len(program.layout.stages) - 1
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
    work = BoltStage(program, stage.number, last, bounded=not streaming).__call__
    return spread.mapInArrow(work, RECORD_FIELDS.ddl if last else CHUNK_DDL)


_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def _slots_of(layout: Layout, stage: Stage) -> int:
    return max(1, sum(len(layout.slots.get(each, ())) for each in stage.components))
