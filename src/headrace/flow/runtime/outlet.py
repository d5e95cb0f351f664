"""Where a stage's tuples go: to slots of later stages, or to topics."""

from collections.abc import Iterator

import pyarrow as pa

from headrace.flow.runtime.tuple_batch import TupleBatch, to_chunk

CHUNK_DDL = "slot INT, edge INT, chunk BINARY"
CHUNK_SCHEMA = pa.schema([("slot", pa.int32()), ("edge", pa.int32()), ("chunk", pa.binary())])

TO_TOPICS = -1
"""The edge of records that only pass later stages on their way to the sink."""

# A chunk is one value of a Spark row: well below what a row may hold, and large enough that the
# cost per row does not matter.
CHUNK_BYTES = 8 * 1024 * 1024
_RECORD_SLOTS = 8
# A column of bytes in Arrow ends at 2 GiB, which a slot may pass on at once.
_ROWS_BYTES = 64 * 1024 * 1024


_Row = tuple[int, int, bytes]


class Outlet:
    """Collects tuples into chunks. Its memory is bounded: a chunk that is large enough leaves."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], list[TupleBatch]] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._ready: list[_Row] = []
        self._turn = 0

    def carry(self, slot: int, edge: int, batch: TupleBatch) -> None:
        """Add tuples for a slot of a later stage."""
        target = slot, edge
        self._waiting.setdefault(target, []).append(batch)
        self._sizes[target] = self._sizes.get(target, 0) + batch.columns.nbytes
        if self._sizes[target] >= CHUNK_BYTES:
            self._close(target)

    def pass_on(self, slot: int, edge: int, chunk: bytes) -> None:
        """Add a chunk that a later stage reads."""
        self._ready.append((slot, edge, chunk))

    def to_topics(self, batch: pa.RecordBatch) -> None:
        """Add records for the sink."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        # Negative slots belong to no component. There are several, so that Spark divides records
        # between its tasks.
        self._turn = (self._turn + 1) % _RECORD_SLOTS
        self._ready.append((-1 - self._turn, TO_TOPICS, bytes(sink.getvalue())))

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows for Spark that are complete."""
        waiting, self._ready = self._ready, []
        rows: list[_Row] = []
        size = 0
        for row in waiting:
            rows.append(row)
            size += len(row[2])
            if size >= _ROWS_BYTES:
                yield _batch(rows)
                rows, size = [], 0
        if rows:
            yield _batch(rows)

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield the rest, incomplete chunks included."""
        for target in list(self._waiting):
            self._close(target)
        yield from self.ready()

    def _close(self, target: tuple[int, int]) -> None:
        slot, edge = target
        self._ready.append((slot, edge, to_chunk(self._waiting.pop(target))))
        self._sizes.pop(target)


def _batch(rows: list[_Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([slot for slot, _, _ in rows], pa.int32()),
            pa.array([edge for _, edge, _ in rows], pa.int32()),
            pa.array([chunk for _, _, chunk in rows], pa.binary()),
        ],
        schema=CHUNK_SCHEMA,
    )
