"""A topology without Spark: its stages one after the other in this process, as Spark calls them.

What Spark does between them (carrying chunks to slots, keeping state by slot, firing timers) is
done here with a few lists, so that a test of what a bolt, a grouping or a window does takes
milliseconds. That Spark does the same is for the tests with a session.
"""

import uuid
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from headrace.flow.plan.check import check
from headrace.flow.plan.plan import Kind, Plan
from headrace.flow.plan.stage import cut
from headrace.flow.runtime.program import Program
from headrace.flow.runtime.stage_map import BoltStage, SpoutStage, open_records
from headrace.flow.runtime.stage_state import StageProcessor
from headrace.flow.runtime.task_state import StateKeeper, TaskState

_Chunks = list[tuple[int, int, bytes]]


class FlowRun:
    """One start of a plan after the other, over one checkpoint.

    Example:
        run = FlowRun(topology.plan())
        run.feed(["a line", "another"])
        assert run.values("words") == [...]
    """

    def __init__(self, plan: Plan) -> None:
        check(plan)
        self._layout = cut(plan)
        self._plan = plan
        self._offsets: dict[int, int] = {}
        self._stores: dict[int, _Handle] = {}
        self.now_ms = 1_000_000
        self.records: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        """Begin anew from the checkpoint, in workers that remember nothing."""
        self._program = Program(self._plan, self._layout, uuid.uuid4().hex)

    def feed(self, *partitions: Sequence[Any], spout: str | None = None, **columns: Any) -> None:
        """Run one batch: the values of a topic, a list for each of its partitions, one a task.

        Args:
            spout: which one, if there are several.
            columns: more columns of the records, such as `timestamp`, the same for all partitions.
        """
        names = [each.name for each in self._plan.components.values() if each.kind is Kind.SPOUT]
        spout = spout or names[0]
        made: list[pa.RecordBatch] = []
        for partition, values in enumerate(partitions):
            rows = self._rows(partition, values, columns)
            made += SpoutStage(self._program, spout)(iter([rows]))
        self._later_stages(made)

    def tick(self, seconds: float) -> None:
        """Let time pass, and the timers of the tasks that have one go off."""
        self.now_ms += int(seconds * 1_000)
        self._later_stages([])

    def values(self, topic: str) -> list[str]:
        """What the records of a topic say, in the order in which they were written."""
        return [(each["value"] or b"").decode() for each in self.records if each["topic"] == topic]

    def take(self, topic: str) -> list[str]:
        """As `values`, and forget them."""
        found = self.values(topic)
        self.records = [each for each in self.records if each["topic"] != topic]
        return found

    def state(self, component: str, task: int) -> TaskState:
        """What the checkpoint holds for a task."""
        slot = self._layout.slots[component][task]
        stage = next(each for each in self._layout.stages if component in each.components)
        handle = self._stores[stage.number]
        handle.slot = slot
        stamp, changes = handle.getValueState("stamp", ""), handle.getListState("changes", "")
        return StateKeeper(stamp, changes, {}).load(slot)

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

    def _later_stages(self, made: list[pa.RecordBatch]) -> None:
        for stage in self._layout.stages[1:]:
            if stage.stateful:
                made = list(self._with_state(stage.number, _chunks(made)))
            else:
                made = list(BoltStage(self._program, stage.number)(made))
        for batch in open_records(made):
            self.records += batch.to_pylist()

    def _with_state(self, stage: int, chunks: _Chunks) -> Iterator[pa.RecordBatch]:
        handle = self._stores.setdefault(stage, _Handle())
        processor = StageProcessor(self._program, stage)
        processor.init(handle)  # type: ignore[arg-type]
        clock = _Clock(self.now_ms)
        chunks.sort(key=lambda each: each[0])
        for slot, rows in groupby(chunks, key=lambda each: each[0]):
            handle.slot = slot
            frame = pa.table(list(zip(*rows, strict=True))[1:], names=["edge", "chunk"]).to_pandas()
            for made in processor.handleInputRows((slot,), iter([frame]), clock):
                yield pa.RecordBatch.from_pandas(made, preserve_index=False)
        for slot, due in sorted(handle.timers):
            if due <= self.now_ms:
                handle.slot = slot
                for made in processor.handleExpiredTimer((slot,), clock, None):
                    yield pa.RecordBatch.from_pandas(made, preserve_index=False)
                # As Spark does it: the timer is there while it is handled.
                handle.timers.remove((slot, due))


class _Clock:
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802 - Spark's name
        return self._now_ms


class _Handle:
    """Spark's handle of a processor, as far as it is used: state and timers by the key at hand."""

    def __init__(self) -> None:
        self.slot = 0
        self.timers: set[tuple[int, int]] = set()
        self._kept: dict[tuple[str, int], Any] = {}

    def getValueState(self, name: str, _schema: str) -> "_Kept":  # noqa: N802 - Spark's name
        return _Kept(self, self._kept, name, None)

    def getListState(self, name: str, _schema: str) -> "_Kept":  # noqa: N802 - Spark's name
        return _Kept(self, self._kept, name, ())

    def listTimers(self) -> Iterator[int]:  # noqa: N802 - Spark's name
        return iter([due for slot, due in self.timers if slot == self.slot])

    def registerTimer(self, due_ms: int) -> None:  # noqa: N802 - Spark's name
        self.timers.add((self.slot, due_ms))


class _Kept:
    def __init__(self, handle: _Handle, kept: dict[Any, Any], name: str, empty: Any) -> None:
        self._handle, self._kept, self._name, self._empty = handle, kept, name, empty

    def get(self) -> Any:
        found = self._kept.get((self._name, self._handle.slot), self._empty)
        return iter(found) if self._empty == () else found

    def update(self, value: Any) -> None:
        self._kept[self._name, self._handle.slot] = value

    def put(self, items: list[Any]) -> None:
        self._kept[self._name, self._handle.slot] = tuple(items)

    def appendValue(self, item: Any) -> None:  # noqa: N802 - Spark's name
        self.put([*self._kept.get((self._name, self._handle.slot), ()), item])


def _chunks(batches: list[pa.RecordBatch]) -> _Chunks:
    return [
        (row["slot"], row["edge"], row["chunk"]) for batch in batches for row in batch.to_pylist()
    ]
