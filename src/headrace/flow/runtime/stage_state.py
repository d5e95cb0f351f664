"""A stage with state, for Spark's `transformWithStateInPandas`: one call per slot and batch.

The key is the slot, so that a task's whole state is one exchange with Spark; see `task_state`.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.flow.plan.plan import PlanComponent
from headrace.flow.plan.slot_key import KEYS_ARE_SLOTS, SlotKeys
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.stage_map import component_of, in_order, is_for, spark_partition
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.task_state import StateKeeper
from headrace.flow.runtime.worker_tasks import worker_tasks
from headrace.spark.worker_memory import freeze_modules
from headrace.spark.worker_socket import AcknowledgingInput

# Types, not texts: Spark would parse a text in its Java process, once per task and batch.
_STAMP = StructType([StructField("stamp", BinaryType())])
_CHANGES = StructType([StructField("change", BinaryType())])


class StageProcessor(AcknowledgingInput, StatefulProcessor):
    """Runs a stage with state. It must pickle: Spark makes a new one per task and batch."""

    def __init__(self, plan_run: PlanRun, stage: int, keys: SlotKeys = KEYS_ARE_SLOTS) -> None:
        self._plan_run = plan_run
        self._stage = stage
        self._keys = keys

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        states = worker_tasks(self._plan_run).states
        states.begin_batch(_batch_number())
        self._keeper = StateKeeper(
            handle.getValueState("stamp", _STAMP),
            handle.getListState("changes", _CHANGES),
            states,
        )

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802,N803
        slot = self._keys.slot(int(key[0]))
        run = self._run(timerValues)
        mine: defaultdict[int, list[bytes]] = defaultdict(list)
        for frame in rows:
            for edge, chunk in zip(frame["edge"], frame["chunk"], strict=True):
                if is_for(self._plan_run, self._stage, edge):
                    mine[int(edge)].append(chunk)
                else:
                    run.outlet.pass_on(slot, int(edge), chunk)
        component = component_of(self._plan_run, slot)
        if mine and component is not None:
            state = self._keeper.load(slot) if component.stateful else None
            for edge, chunks in sorted(mine.items()):
                run.bolt(slot, edge, in_order(chunks), state)
            if state is not None:
                self._keeper.save(slot, state)
            self._start_timer(component, timerValues)
        yield from _frames(run.finish())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        slot = self._keys.slot(int(key[0]))
        component = component_of(self._plan_run, slot)
        if component is None or component.tick_seconds is None:
            return
        run = self._run(timerValues)
        state = self._keeper.load(slot) if component.stateful else None
        run.tick(slot, component, timerValues.getCurrentProcessingTimeInMs(), state)
        if state is not None:
            self._keeper.save(slot, state)
        # Spark still lists the timer that has just expired, and deletes it after this call.
        self._register(component, timerValues)
        yield from _frames(run.finish())

    def _run(self, timer_values: Any) -> StageRun:
        ticks = self._plan_run.layout.stages[self._stage].ticks
        now_ms = timer_values.getCurrentProcessingTimeInMs() if ticks else None
        return StageRun(self._plan_run, spark_partition(), now_ms=now_ms)

    def _start_timer(self, component: PlanComponent, timer_values: Any) -> None:
        """Register the first timer of a component that ticks."""
        if component.tick_seconds is None or next(self._handle.listTimers(), None) is not None:
            return
        self._register(component, timer_values)

    def _register(self, component: PlanComponent, timer_values: Any) -> None:
        assert component.tick_seconds is not None
        now_ms = timer_values.getCurrentProcessingTimeInMs()
        self._handle.registerTimer(now_ms + max(1, int(component.tick_seconds * 1_000)))

    def close(self) -> None:
        """Return memory to the system. The worker's bolts stay for the next batch."""
        freeze_modules()


def _batch_number() -> str | None:
    """Return Spark's number of the batch that this task belongs to."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("streaming.sql.batchId")


def _frames(batches: Iterator[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch.to_pandas()
