"""Where a stage's tuples go: to slots of later stages, or to topics."""

from collections.abc import Iterator

import pyarrow as pa

from headrace.flow.runtime.tuple_batch import TupleBatch, to_chunk

CHUNK_DDL = "slot INT, edge INT, chunk BINARY"
CHUNK_SCHEMA = pa.schema([("slot", pa.int32()), ("edge", pa.int32()), ("chunk", pa.binary())])

TO_TOPICS = -1
"""The edge of records that only wait for the sink."""

# A chunk is one value of a Spark row: well below what a row may hold, well above what a row costs.
CHUNK_BYTES = 8 * 1024 * 1024
_NOBODYS = 8


class Outlet:
    """Gathers tuples into chunks. Bounded: a chunk that is large enough leaves."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], list[TupleBatch]] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._ready: list[tuple[int, int, bytes]] = []
        self._turn = 0

    def carry(self, slot: int, edge: int, batch: TupleBatch) -> None:
        place = slot, edge
        self._waiting.setdefault(place, []).append(batch)
        self._sizes[place] = self._sizes.get(place, 0) + batch.columns.nbytes
        if self._sizes[place] >= CHUNK_BYTES:
            self._close(place)

    def pass_on(self, slot: int, edge: int, chunk: bytes) -> None:
        """A chunk for a later stage."""
        self._ready.append((slot, edge, chunk))

    def to_topics(self, batch: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        # Nobody's slots, several of them, so that records do not all pass one task.
        self._turn = (self._turn + 1) % _NOBODYS
        self._ready.append((-1 - self._turn, TO_TOPICS, bytes(sink.getvalue())))

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Rows for Spark that can leave now."""
        rows, self._ready = self._ready, []
        if rows:
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([slot for slot, _, _ in rows], pa.int32()),
                    pa.array([edge for _, edge, _ in rows], pa.int32()),
                    pa.array([chunk for _, _, chunk in rows], pa.binary()),
                ],
                schema=CHUNK_SCHEMA,
            )

    def close(self) -> Iterator[pa.RecordBatch]:
        """The rest."""
        for place in list(self._waiting):
            self._close(place)
        yield from self.ready()

    def _close(self, place: tuple[int, int]) -> None:
        slot, edge = place
        self._ready.append((slot, edge, to_chunk(self._waiting.pop(place))))
        self._sizes.pop(place)
