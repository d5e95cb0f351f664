"""A stage with state, for Spark's `transformWithStateInPandas`: one call a slot and batch.

The key is the slot, so that a task's whole state is one exchange; see `task_state`.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from headrace.flow.plan.plan import Component
from headrace.flow.runtime.program import Program, cast_of
from headrace.flow.runtime.stage_map import component_of, in_order, is_for, spark_partition
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.task_state import StateKeeper
from headrace.spark.worker_memory import settle


class StageProcessor(StatefulProcessor):
    """Must pickle; Spark makes a new one for each of its tasks and batches."""

    def __init__(self, program: Program, stage: int) -> None:
        self._program = program
        self._stage = stage

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._keeper = StateKeeper(
            handle.getValueState("stamp", "stamp BINARY"),
            handle.getListState("changes", "change BINARY"),
            cast_of(self._program).states,
        )

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802,N803
        slot = int(key[0])
        run = self._run(timerValues)
        mine: defaultdict[int, list[bytes]] = defaultdict(list)
        for frame in rows:
            for edge, chunk in zip(frame["edge"], frame["chunk"], strict=True):
                if is_for(self._program, self._stage, edge):
                    mine[int(edge)].append(chunk)
                else:
                    run.outlet.pass_on(slot, int(edge), chunk)
        component = component_of(self._program, slot)
        if mine and component is not None:
            state = self._keeper.load(slot) if component.stateful else None
            for edge, chunks in sorted(mine.items()):
                run.bolt(slot, edge, in_order(chunks), state)
            if state is not None:
                self._keeper.save(slot, state)
            self._wind_up(component, timerValues)
        yield from _frames(run.finish())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        slot = int(key[0])
        component = component_of(self._program, slot)
        if component is None or component.tick_seconds is None:
            return
        run = self._run(timerValues)
        state = self._keeper.load(slot) if component.stateful else None
        run.tick(slot, component, timerValues.getCurrentProcessingTimeInMs(), state)
        if state is not None:
            self._keeper.save(slot, state)
        # Spark still lists the timer that has just gone off, and deletes it behind this call.
        self._register(component, timerValues)
        yield from _frames(run.finish())

    def _run(self, timer_values: Any) -> StageRun:
        ticks = self._program.layout.stages[self._stage].ticks
        now_ms = timer_values.getCurrentProcessingTimeInMs() if ticks else None
        return StageRun(self._program, spark_partition(), now_ms=now_ms)

    def _wind_up(self, component: Component, timer_values: Any) -> None:
        """Let the clock of a component that ticks run, if it does not yet."""
        if component.tick_seconds is None or next(self._handle.listTimers(), None) is not None:
            return
        self._register(component, timer_values)

    def _register(self, component: Component, timer_values: Any) -> None:
        assert component.tick_seconds is not None
        now_ms = timer_values.getCurrentProcessingTimeInMs()
        self._handle.registerTimer(now_ms + max(1, int(component.tick_seconds * 1_000)))

    def close(self) -> None:
        """The worker's bolts live on for the next batch."""
        settle()


def _frames(batches: Iterator[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch.to_pandas()
