"""Tuples as columns, each with the place in a topic that it goes back to."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

ORIGIN = pa.schema(
    [
        pa.field("_topic", pa.dictionary(pa.int16(), pa.string())),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
    ]
)
_WIDTH = len(ORIGIN)

Origin: TypeAlias = "pa.RecordBatch | Callable[[], pa.RecordBatch]"


@dataclass(frozen=True, slots=True)
class TupleBatch:
    """Tuples of one stream.

    Args:
        lazy_origin: their origins, or a function that returns them. Most origins are never read.
    """

    columns: pa.RecordBatch
    lazy_origin: Origin

    @property
    def origin(self) -> pa.RecordBatch:
        """A row per tuple: the record it was made from, or one of several; nulls without one."""
        origin = self.lazy_origin
        if callable(origin):
            origin = origin()
            object.__setattr__(self, "lazy_origin", origin)
        return origin

    @property
    def num_rows(self) -> int:
        return int(self.columns.num_rows)

    @property
    def place(self) -> str | None:
        """The origin of the first tuple, as an error message names it."""
        first = self.origin.slice(0, 1).to_pylist()
        if not first or first[0]["_topic"] is None:
            return None
        return "offset {_offset} of {_topic}-{_partition}".format(**first[0])

    def take(self, rows: pa.Array) -> "TupleBatch":
        return TupleBatch(self.columns.take(rows), lambda: self.origin.take(rows))

    def slice(self, start: int, length: int) -> "TupleBatch":
        return TupleBatch(
            self.columns.slice(start, length), lambda: self.origin.slice(start, length)
        )

    def origins(self, rows: pa.Array | None, count: int) -> pa.RecordBatch:
        """Return the origins of tuples made from these.

        Args:
            rows: for each new tuple the one it was made from; None: the component did not say, so
                all get the origin of the first.
        """
        if rows is not None:
            return self.origin.take(rows)
        if self.num_rows == 0:
            return no_origin(count)
        return self.origin.take(pa.repeat(pa.scalar(0, pa.int64()), count))


def no_origin(count: int) -> pa.RecordBatch:
    """Return the origins of tuples that came from no topic."""
    return pa.RecordBatch.from_arrays(
        [pa.nulls(count, each.type) for each in ORIGIN], schema=ORIGIN
    )


def to_chunk(batches: Iterable[TupleBatch]) -> bytes:
    """Return tuples of one stream as one Arrow stream."""
    sink = pa.BufferOutputStream()
    writer = None
    for each in batches:
        merged = pa.RecordBatch.from_arrays(
            [*each.columns.columns, *each.origin.columns],
            schema=pa.schema([*each.columns.schema, *ORIGIN]),
        )
        if writer is None:
            writer = pa.ipc.new_stream(sink, merged.schema)
        writer.write_batch(merged)
    if writer is not None:
        writer.close()
    return bytes(sink.getvalue())


def from_chunk(chunk: bytes) -> list[TupleBatch]:
    """Return the batches that `to_chunk` wrote."""
    with pa.ipc.open_stream(chunk) as reader:
        return [_split(each) for each in reader]


def _split(merged: pa.RecordBatch) -> TupleBatch:
    width = merged.num_columns - _WIDTH
    columns = merged.select(list(range(width)))
    origin = merged.select(list(range(width, width + _WIDTH)))
    return TupleBatch(columns, origin)


def joined(batches: list[TupleBatch]) -> TupleBatch:
    """Return several batches of one stream as one."""
    if len(batches) == 1:
        return batches[0]
    return TupleBatch(
        pa.concat_batches([each.columns for each in batches]),
        _concat_origins([each.origin for each in batches]),
    )


def _concat_origins(origins: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(origins).unify_dictionaries().combine_chunks()
    return table.to_batches(max_chunksize=table.num_rows)[0] if table.num_rows else no_origin(0)
