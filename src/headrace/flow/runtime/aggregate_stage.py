"""The two ends of an aggregate that Spark does itself: rows for it, and what becomes of its totals.

Rows
----
Before Spark's aggregate a row is a partial total (`partial`), or a lane of records: dead letters
and tallies of the stage that feeds the aggregate, on their way to their topics. Spark has one
output, so records must pass the aggregate too. A lane is a key of its own whose total is simply the
last row: it comes out only if the batch put something in, and the next batch overwrites it, so what
Spark keeps of it stays as small as one batch's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM, Component
from headrace.flow.runtime.outlet import CHUNK_BYTES, Outlet
from headrace.flow.runtime.partial import PartialColumns, PartialSheet
from headrace.flow.runtime.program import Program
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.runtime.stage_map import open_records, opened, spark_partition
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin

LANE, LETTERS = "_lane", "_records"
LANE_DDL = f"{LANE} STRING, {LETTERS} BINARY"
_LANE_SCHEMA = pa.schema([(LANE, pa.string()), (LETTERS, pa.binary())])

_Batches = Iterable[pa.RecordBatch]


def partial_columns(program: Program, component: Component) -> PartialColumns:
    fields = program.plan.fields_of(component.inputs[0])
    return PartialColumns(component.work.aggregate, fields)


class _Feed(Outlet):
    """Takes tuples for the aggregate apart from records."""

    def __init__(self, sheet: PartialSheet) -> None:
        super().__init__()
        self._sheet = sheet
        self._records: list[pa.RecordBatch] = []

    def carry(self, slot: int, edge: int, batch: TupleBatch) -> None:
        self._sheet.add(batch.columns)

    def to_topics(self, batch: pa.RecordBatch) -> None:
        self._records.append(batch)

    def lanes(self) -> Iterator[bytes]:
        """The records, in chunks of a size that a row can have."""
        while self._records:
            sink = pa.BufferOutputStream()
            size = 0
            with pa.ipc.new_stream(sink, RECORD_FIELDS.schema) as writer:
                while self._records and size < CHUNK_BYTES:
                    batch = self._records.pop(0)
                    size += batch.nbytes
                    writer.write_batch(batch)
            yield bytes(sink.getvalue())


@dataclass(frozen=True, slots=True)
class AggregateFeed:
    """Stage 0 before the aggregate: from a spout's rows to partial totals and lanes."""

    program: Program
    spout: str
    aggregate: str

    def __call__(self, batches: _Batches) -> Iterator[pa.RecordBatch]:
        spout = self.program.component(self.spout)
        target = self.program.component(self.aggregate)
        columns = partial_columns(self.program, target)
        sheet = PartialSheet(columns)
        feed = _Feed(sheet)
        run = StageRun(self.program, spark_partition(), feed)
        for batch in batches:
            if batch.num_rows:
                for stream, made in spout.work.decode(batch):
                    run.spout(spout, made, stream)
        for _ in run.finish():
            raise AssertionError("a feed has no chunks")
        schema = pa.schema([*columns.schema, *_LANE_SCHEMA])
        yield from _partials(sheet.close(), schema)
        for number, chunk in enumerate(feed.lanes()):
            lane = f"{self.spout}/{spark_partition()}/{number}"
            yield _lane_row(lane, chunk, schema)


@dataclass(frozen=True, slots=True)
class AggregateTail:
    """Behind the aggregate: totals as tuples for its readers, lanes opened."""

    program: Program
    aggregate: str

    def __call__(self, batches: _Batches) -> Iterator[pa.RecordBatch]:
        component = self.program.component(self.aggregate)
        fields = component.outputs[DEFAULT_STREAM]
        run = StageRun(self.program, spark_partition())
        for batch in batches:
            lanes = batch.column(LETTERS).drop_null()
            for chunk in lanes:
                yield from opened(chunk.as_buffer())
            totals = batch.filter(batch.column(LANE).is_null())
            if totals.num_rows:
                run.totals(component, _tuples(totals, fields))
            yield from open_records(run.outlet.ready())
        yield from open_records(run.finish())


def _partials(made: pa.Table | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if made is None:
        return
    for each in _LANE_SCHEMA:
        made = made.append_column(each, pa.nulls(made.num_rows, each.type))
    yield from made.cast(schema).combine_chunks().to_batches()


def _lane_row(lane: str, chunk: bytes, schema: pa.Schema) -> pa.RecordBatch:
    empty = [pa.nulls(1, each.type) for each in list(schema)[: -len(_LANE_SCHEMA)]]
    return pa.RecordBatch.from_arrays(
        [*empty, pa.array([lane], pa.string()), pa.array([chunk], pa.binary())], schema=schema
    )


def _tuples(totals: pa.RecordBatch, fields: Fields) -> TupleBatch:
    arrays = [totals.column(each.name).cast(each.type) for each in fields.schema]
    columns = pa.RecordBatch.from_arrays(arrays, schema=fields.schema)
    return TupleBatch(columns, no_origin(columns.num_rows))
