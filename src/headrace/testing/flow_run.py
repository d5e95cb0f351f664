"""Running a topology without Spark, for fast tests.

The stages run one after the other in this process, called as Spark calls them. What Spark does
between them (carrying chunks to slots, keeping state by slot, firing timers) is done with a few
lists, so that a test of a bolt, a grouping or a window takes milliseconds.
"""

import copy
import uuid
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from headrace.flow.plan.check_plan import check_plan
from headrace.flow.plan.plan import DEFAULT_STREAM, Kind, Plan
from headrace.flow.plan.stage import stage_layout
from headrace.flow.plan.work import TaskContext
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.spout_offset import SpoutOffset
from headrace.flow.runtime.spout_task import SpoutTask
from headrace.flow.runtime.stage_map import BoltStage, SpoutStage, open_records
from headrace.flow.runtime.stage_state import StageProcessor
from headrace.flow.runtime.state_memory import StateMemory
from headrace.flow.runtime.task_state import StateKeeper, TaskState
from headrace.flow.storm.python_spout import limits_of

_Chunks = list[tuple[int, int, bytes]]


class FlowRun:
    """Runs a plan batch by batch. The checkpoint survives `restart`.

    Attributes:
        now_ms: the clock that timers and windows see.
        records: what the sinks have written.

    Example:
        run = FlowRun(topology.plan())
        run.feed(["a line", "another"])
        assert run.values("words") == [...]
    """

    def __init__(self, plan: Plan) -> None:
        check_plan(plan)
        self._layout = stage_layout(plan)
        self._plan = plan
        self._offsets: dict[int, int] = {}
        self._stores: dict[int, _Handle] = {}
        self._ends: dict[str, SpoutOffset] = {}
        self.now_ms = 1_000_000
        self.records: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        """Start again from the checkpoint, in workers without prepared bolts or open spouts."""
        self._spouts: dict[str, SpoutTask] = {}
        self._plan_run = PlanRun(self._plan, self._layout, uuid.uuid4().hex)

    def feed(self, *partitions: Sequence[Any], spout: str | None = None, **columns: Any) -> None:
        """Run one batch over the values of a topic: a list per partition, each read by one task.

        Args:
            spout: the spout that reads them; by default the first.
            columns: more columns of the records, such as `timestamp`, the same for all partitions.
        """
        names = [each.name for each in self._plan.components.values() if each.kind is Kind.SPOUT]
        spout = spout or names[0]
        chunks: list[pa.RecordBatch] = []
        for partition, values in enumerate(partitions):
            rows = self._rows(partition, values, columns)
            chunks += SpoutStage(self._plan_run, spout)(iter([rows]))
        self._later_stages(chunks)

    def run_spout_batch(self, spout: str | None = None) -> int:
        """Run one batch over what a `PythonSpout` emits; the next call acks it.

        Returns:
            How many tuples the batch had.
        """
        names = [each.name for each in self._plan.components.values() if each.kind is Kind.SPOUT]
        name = spout or names[0]
        start = self._ends.get(name, SpoutOffset(name))
        task = self._spouts.get(name) or self._spout_task(name)
        end = task.next_batch(start)
        if end is None:
            return 0
        tuples = task.tuples(start.emitted, end.emitted)
        assert tuples is not None
        self._later_stages(list(SpoutStage(self._plan_run, name)(iter([tuples]))))
        self._ends[name] = end
        return end.emitted - start.emitted

    def tick(self, seconds: float) -> None:
        """Advance the clock, and fire the timers that are due."""
        self.now_ms += int(seconds * 1_000)
        self._later_stages([])

    def values(self, topic: str) -> list[str]:
        """Return the values of a topic, in the order in which they were written."""
        return [(each["value"] or b"").decode() for each in self.records if each["topic"] == topic]

    def take(self, topic: str) -> list[str]:
        """Return the values of a topic, and remove them."""
        values = self.values(topic)
        self.records = [each for each in self.records if each["topic"] != topic]
        return values

    def state(self, component: str, task: int) -> TaskState:
        """Return the state that the checkpoint has for a task."""
        slot = self._layout.slots[component][task]
        stage = next(each for each in self._layout.stages if component in each.components)
        handle = self._stores[stage.number]
        handle.slot = slot
        stamp, changes = handle.getValueState("stamp", ""), handle.getListState("changes", "")
        return StateKeeper(stamp, changes, StateMemory()).load(slot)

    def _spout_task(self, name: str) -> SpoutTask:
        component = self._plan.components[name]
        context = TaskContext(self._plan.name, name, task=0, tasks=1)
        fields = component.outputs[DEFAULT_STREAM]
        limits = limits_of(component.work.spout, name, self._plan.settings)
        task = SpoutTask(copy.copy(component.work.spout), context, fields, limits)
        self._spouts[name] = task
        return task

    def _rows(self, partition: int, values: Sequence[Any], columns: Any) -> pa.RecordBatch:
        first = self._offsets.get(partition, 0)
        self._offsets[partition] = first + len(values)
        return pa.record_batch(
            {
                "topic": pa.array(["in"] * len(values), pa.string()),
                "partition": pa.array([partition] * len(values), pa.int32()),
                "offset": pa.array(range(first, first + len(values)), pa.int64()),
                "value": pa.array(values),
                **columns,
            }
        )

    def _later_stages(self, chunks: list[pa.RecordBatch]) -> None:
        for stage in self._layout.stages[1:]:
            if stage.stateful:
                chunks = list(self._with_state(stage.number, _rows_of(chunks)))
            else:
                chunks = list(BoltStage(self._plan_run, stage.number)(chunks))
        for batch in open_records(chunks):
            self.records += batch.to_pylist()

    def _with_state(self, stage: int, chunks: _Chunks) -> Iterator[pa.RecordBatch]:
        handle = self._stores.setdefault(stage, _Handle())
        processor = StageProcessor(self._plan_run, stage)
        processor.init(handle)  # type: ignore[arg-type]
        clock = _Clock(self.now_ms)
        chunks.sort(key=lambda each: each[0])
        for slot, rows in groupby(chunks, key=lambda each: each[0]):
            handle.slot = slot
            frame = pa.table(list(zip(*rows, strict=True))[1:], names=["edge", "chunk"]).to_pandas()
            for output in processor.handleInputRows((slot,), iter([frame]), clock):
                yield pa.RecordBatch.from_pandas(output, preserve_index=False)
        for slot, due in sorted(handle.timers):
            if due <= self.now_ms:
                handle.slot = slot
                for output in processor.handleExpiredTimer((slot,), clock, None):
                    yield pa.RecordBatch.from_pandas(output, preserve_index=False)
                # As Spark does it: the timer is listed while it is handled.
                handle.timers.remove((slot, due))


class _Clock:
    """The timer values that Spark passes to a processor."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802 - Spark's name
        return self._now_ms


class _Handle:
    """The part of Spark's StatefulProcessorHandle that is used: state and timers of the slot."""

    def __init__(self) -> None:
        self.slot = 0
        self.timers: set[tuple[int, int]] = set()
        self._kept: dict[tuple[str, int], Any] = {}

    def getValueState(self, name: str, _schema: Any) -> "_Kept":  # noqa: N802 - Spark's name
        return _Kept(self, self._kept, name, None)

    def getListState(self, name: str, _schema: Any) -> "_Kept":  # noqa: N802 - Spark's name
        return _Kept(self, self._kept, name, ())

    def listTimers(self) -> Iterator[int]:  # noqa: N802 - Spark's name
        return iter([due for slot, due in self.timers if slot == self.slot])

    def registerTimer(self, due_ms: int) -> None:  # noqa: N802 - Spark's name
        self.timers.add((self.slot, due_ms))


class _Kept:
    """Spark's ValueState or ListState, for the slot of the handle."""

    def __init__(self, handle: _Handle, kept: dict[Any, Any], name: str, empty: Any) -> None:
        self._handle, self._kept, self._name, self._empty = handle, kept, name, empty

    def get(self) -> Any:
        value = self._kept.get((self._name, self._handle.slot), self._empty)
        return iter(value) if self._empty == () else value

    def update(self, value: Any) -> None:
        self._kept[self._name, self._handle.slot] = value

    def put(self, items: list[Any]) -> None:
        self._kept[self._name, self._handle.slot] = tuple(items)

    def appendValue(self, item: Any) -> None:  # noqa: N802 - Spark's name
        self.put([*self._kept.get((self._name, self._handle.slot), ()), item])


def _rows_of(batches: list[pa.RecordBatch]) -> _Chunks:
    return [
        (row["slot"], row["edge"], row["chunk"]) for batch in batches for row in batch.to_pylist()
    ]
