"""A stage as a function over Arrow batches, for Spark's `mapInArrow`."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.flow.plan.plan import PlanComponent
from headrace.flow.runtime.outlet import TO_TOPICS
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch, from_chunk, joined
from headrace.spark.worker_memory import freeze_modules

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class SpoutStage:
    """Stage 0: turns a spout's rows into chunks."""

    plan_run: PlanRun
    spout: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        component = self.plan_run.component(self.spout)
        run = StageRun(self.plan_run, spark_partition())
        for batch in batches:
            if batch.num_rows:
                for stream, tuples in component.work.decode(batch):
                    run.spout(component, tuples, stream)
                yield from run.outlet.ready()
        yield from run.finish()


@dataclass(frozen=True, slots=True)
class BoltStage:
    """A later stage: turns chunks into chunks.

    Attributes:
        bounded: this call has all tuples there will be, as in a batch query. A bolt with state then
            begins with an empty one, and a bolt that ticks does so once, at the end.
    """

    plan_run: PlanRun
    stage: int
    bounded: bool = False

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        run = StageRun(self.plan_run, spark_partition())
        mine: defaultdict[int, defaultdict[int, list[bytes]]] = defaultdict(_edges)
        for slot, edge, chunk in _chunks(batches):
            if is_for(self.plan_run, self.stage, edge):
                mine[slot][edge].append(chunk)
            else:
                run.outlet.pass_on(slot, edge, chunk)
        yield from run.outlet.ready()
        for slot, edges in sorted(mine.items()):
            self._slot(run, slot, edges)
            yield from run.outlet.ready()
        yield from run.finish()
        freeze_modules()

    def _slot(self, run: StageRun, slot: int, edges: dict[int, list[bytes]]) -> None:
        component = component_of(self.plan_run, slot)
        assert component is not None
        state = TaskState() if self.bounded and component.stateful else None
        for edge, chunks in sorted(edges.items()):
            run.bolt(slot, edge, in_order(chunks), state)
        if self.bounded and component.tick_seconds is not None:
            run.tick(slot, component, time.time_ns() // 1_000_000, state)


def open_records(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the records in the last stage's chunks."""
    for batch in batches:
        for chunk in batch.column("chunk"):
            yield from opened(chunk.as_buffer())


def is_for(plan_run: PlanRun, stage: int, edge: int) -> bool:
    """Return whether the reader of an edge runs in this stage."""
    if edge == TO_TOPICS:
        return False
    reader = plan_run.layout.edges[edge].reader
    return reader in plan_run.layout.stages[stage].components


def in_order(chunks: list[bytes]) -> TupleBatch:
    """Return the tuples of one slot and edge in the order of the records they come from.

    Spark delivers chunks in any order. Sorting them by the origin of their first tuples keeps the
    tuples of a key in the order of its topic, and makes a repeated batch equal to the first.
    """
    batches = [batch for chunk in chunks for batch in from_chunk(chunk)]
    batches.sort(key=_first_origin)
    return joined(batches)


def _edges() -> defaultdict[int, list[bytes]]:
    return defaultdict(list)


def spark_partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def component_of(plan_run: PlanRun, slot: int) -> PlanComponent | None:
    """Return the component of a slot; None for records on their way to the sink."""
    for name, slots in plan_run.layout.slots.items():
        if slot in slots:
            return plan_run.component(name)
    return None


def _first_origin(batch: TupleBatch) -> tuple[str, int, int]:
    if batch.num_rows == 0:
        return "", -1, -1
    topic, partition, offset = (column[0].as_py() for column in batch.origin.columns)
    return topic or "", -1 if partition is None else partition, -1 if offset is None else offset


def _chunks(batches: Batches) -> Iterator[tuple[int, int, bytes]]:
    for batch in batches:
        slots, edges, chunks = batch.columns
        yield from zip(slots.to_pylist(), edges.to_pylist(), chunks.to_pylist(), strict=True)


def opened(chunk: pa.Buffer) -> Iterator[pa.RecordBatch]:
    """Yield the records of a chunk."""
    with pa.ipc.open_stream(chunk) as reader:
        for each in reader:
            assert each.schema.equals(RECORD_FIELDS.schema)
            yield each
