"""The stages before and after an aggregate that Spark computes itself.

Rows
----
Before Spark's aggregate a row is a partial total (`partial`) or a pass-through row. Pass-through
rows carry records: dead letters and tallies of the stage that feeds the aggregate, on their way to
their topics. Spark has one output, so they must pass the aggregate too. Each has a key of its own
whose total is simply the last row. It comes out only if the batch put something in, and the next
batch overwrites it, so Spark's state keeps no more records than one batch has.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM, PlanComponent
from headrace.flow.runtime.outlet import CHUNK_BYTES, Outlet
from headrace.flow.runtime.partial import PartialColumns, PartialTotals
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.runtime.stage_map import open_records, opened, spark_partition
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin

PASS_KEY, PASS_RECORDS = "_pass_key", "_records"
PASS_DDL = f"{PASS_KEY} STRING, {PASS_RECORDS} BINARY"
_PASS_SCHEMA = pa.schema([(PASS_KEY, pa.string()), (PASS_RECORDS, pa.binary())])

_Batches = Iterable[pa.RecordBatch]


def partial_columns(plan_run: PlanRun, component: PlanComponent) -> PartialColumns:
    """Return the columns of partial totals of an aggregate component."""
    fields = plan_run.plan.fields_of(component.inputs[0])
    return PartialColumns(component.work.aggregate, fields)


class _FeedOutlet(Outlet):
    """Separates tuples for the aggregate from records."""

    def __init__(self, totals: PartialTotals) -> None:
        super().__init__()
        self._totals = totals
        self._records: list[pa.RecordBatch] = []

    def carry(self, slot: int, edge: int, batch: TupleBatch) -> None:
        self._totals.add(batch.columns)

    def to_topics(self, batch: pa.RecordBatch) -> None:
        self._records.append(batch)

    def record_chunks(self) -> Iterator[bytes]:
        """Yield the records, in chunks of a size that a row can have."""
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
    """Stage 0: turns a spout's rows into partial totals and pass-through rows."""

    plan_run: PlanRun
    spout: str
    aggregate: str

    def __call__(self, batches: _Batches) -> Iterator[pa.RecordBatch]:
        spout = self.plan_run.component(self.spout)
        target = self.plan_run.component(self.aggregate)
        columns = partial_columns(self.plan_run, target)
        totals = PartialTotals(columns)
        feed = _FeedOutlet(totals)
        run = StageRun(self.plan_run, spark_partition(), feed)
        for batch in batches:
            if batch.num_rows:
                for stream, tuples in spout.work.decode(batch):
                    run.spout(spout, tuples, stream)
        for _ in run.finish():
            raise AssertionError("a feed has no chunks")
        schema = pa.schema([*columns.schema, *_PASS_SCHEMA])
        yield from _partials(totals.close(), schema)
        for number, chunk in enumerate(feed.record_chunks()):
            key = f"{self.spout}/{spark_partition()}/{number}"
            yield _pass_row(key, chunk, schema)


@dataclass(frozen=True, slots=True)
class AggregateTail:
    """The stage after the aggregate: turns totals into tuples, and opens pass-through rows."""

    plan_run: PlanRun
    aggregate: str

    def __call__(self, batches: _Batches) -> Iterator[pa.RecordBatch]:
        component = self.plan_run.component(self.aggregate)
        fields = component.outputs[DEFAULT_STREAM]
        run = StageRun(self.plan_run, spark_partition())
        for batch in batches:
            for chunk in batch.column(PASS_RECORDS).drop_null():
                yield from opened(chunk.as_buffer())
            totals = batch.filter(batch.column(PASS_KEY).is_null())
            if totals.num_rows:
                run.totals(component, _tuples(totals, fields))
            yield from open_records(run.outlet.ready())
        yield from open_records(run.finish())


def _partials(totals: pa.Table | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if totals is None:
        return
    for each in _PASS_SCHEMA:
        totals = totals.append_column(each, pa.nulls(totals.num_rows, each.type))
    yield from totals.cast(schema).combine_chunks().to_batches()


def _pass_row(key: str, chunk: bytes, schema: pa.Schema) -> pa.RecordBatch:
    empty = [pa.nulls(1, each.type) for each in list(schema)[: -len(_PASS_SCHEMA)]]
    return pa.RecordBatch.from_arrays(
        [*empty, pa.array([key], pa.string()), pa.array([chunk], pa.binary())], schema=schema
    )


def _tuples(totals: pa.RecordBatch, fields: Fields) -> TupleBatch:
    arrays = [totals.column(each.name).cast(each.type) for each in fields.schema]
    columns = pa.RecordBatch.from_arrays(arrays, schema=fields.schema)
    return TupleBatch(columns, no_origin(columns.num_rows))
