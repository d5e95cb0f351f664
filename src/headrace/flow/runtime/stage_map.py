"""A stage as a function over Arrow batches, for Spark's `mapInArrow`."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.flow.plan.plan import Component
from headrace.flow.runtime.outlet import TO_TOPICS
from headrace.flow.runtime.program import Program
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch, from_chunk, joined
from headrace.spark.worker_memory import settle

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class SpoutStage:
    """Stage 0: from a spout's rows to chunks."""

    program: Program
    spout: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        component = self.program.component(self.spout)
        run = StageRun(self.program, spark_partition())
        for batch in batches:
            if batch.num_rows:
                for stream, made in component.work.decode(batch):
                    run.spout(component, made, stream)
                yield from run.outlet.ready()
        yield from run.finish()


@dataclass(frozen=True, slots=True)
class BoltStage:
    """A later stage in one go: from chunks to chunks.

    `bounded`: all there will ever be comes in this call, as in a batch over what is there. A bolt
    with state begins with none, and a clock strikes once, at the end.
    """

    program: Program
    stage: int
    bounded: bool = False

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        run = StageRun(self.program, spark_partition())
        mine: defaultdict[int, defaultdict[int, list[bytes]]] = defaultdict(_edges)
        for slot, edge, chunk in _chunks(batches):
            if is_for(self.program, self.stage, edge):
                mine[slot][edge].append(chunk)
            else:
                run.outlet.pass_on(slot, edge, chunk)
        yield from run.outlet.ready()
        for slot, edges in sorted(mine.items()):
            self._slot(run, slot, edges)
            yield from run.outlet.ready()
        yield from run.finish()
        settle()

    def _slot(self, run: StageRun, slot: int, edges: dict[int, list[bytes]]) -> None:
        component = component_of(self.program, slot)
        assert component is not None
        state = TaskState() if self.bounded and component.stateful else None
        for edge, chunks in sorted(edges.items()):
            run.bolt(slot, edge, in_order(chunks), state)
        if self.bounded and component.tick_seconds is not None:
            run.tick(slot, component, time.time_ns() // 1_000_000, state)


def open_records(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The records in a last stage's chunks."""
    for batch in batches:
        for chunk in batch.column("chunk"):
            yield from opened(chunk.as_buffer())


def is_for(program: Program, stage: int, edge: int) -> bool:
    """Whether the reader of an edge runs in this stage."""
    if edge == TO_TOPICS:
        return False
    reader = program.layout.edges[edge].reader
    return reader in program.layout.stages[stage].components


def in_order(chunks: list[bytes]) -> TupleBatch:
    """The tuples of one slot and edge. Spark brings chunks in any order: they are put in that of
    the records their first tuples come from, so that a key's tuples stay in the order of its
    topic and a batch that is done again is done alike."""
    batches = [batch for chunk in chunks for batch in from_chunk(chunk)]
    batches.sort(key=_first_origin)
    return joined(batches)


def _edges() -> defaultdict[int, list[bytes]]:
    return defaultdict(list)


def spark_partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def component_of(program: Program, slot: int) -> Component | None:
    """Whose slot it is; None for records on their way to the sink."""
    for name, slots in program.layout.slots.items():
        if slot in slots:
            return program.component(name)
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
    """The records of a chunk."""
    with pa.ipc.open_stream(chunk) as reader:
        for each in reader:
            assert each.schema.equals(RECORD_FIELDS.schema)
            yield each
