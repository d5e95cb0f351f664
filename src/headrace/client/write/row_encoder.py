"""Rows to batches: cut into chunks, placed, encoded."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from headrace.client.write.pending_batch import PendingBatch, SharedBuffer, pending_batches
from headrace.client.write.placement import Columns, Placement
from headrace.records.compression import Codec
from headrace.records.encode import encode

Placed: TypeAlias = tuple[int, list[PendingBatch]]
"""A partition, and batches for it in their order."""


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """How rows become batches.

    Attributes:
        batch_bytes: where a batch is full, before compression.
        chunk_bytes: about how many bytes of rows are encoded at once, into memory of their own.
    """

    codec: Codec
    level: int | None
    batch_bytes: int
    chunk_bytes: int

    def encode(self, placement: Placement, columns: Columns) -> tuple[SharedBuffer, list[Placed]]:
        """One chunk's batches by partition, and the memory they share.

        Raises:
            InvalidArgument: rows that no records can be made of.
        """
        run_rows = columns.num_rows * self.batch_bytes // max(1, columns.nbytes)
        now_ms = time.time_ns() // 1_000_000
        found: list[tuple[int, list[memoryview]]] = []
        for partition, rows in placement.split(columns, run_rows):
            batches = encode(
                rows,
                timestamp_ms=now_ms,
                max_batch_bytes=self.batch_bytes,
                codec=self.codec,
                level=self.level,
            ).batches
            if partition is None:
                found += [(placement.next(), [batch]) for batch in batches]
            else:
                found.append((partition, batches))
        size_bytes = sum(len(batch) for _, batches in found for batch in batches)
        room = SharedBuffer(size_bytes, sum(len(batches) for _, batches in found))
        return room, [(partition, pending_batches(batches, room)) for partition, batches in found]

    def chunks(self, columns: Columns) -> Iterator[Columns]:
        """Pieces of about `chunk_bytes`; of one row, if that is larger."""
        rows, size_bytes = columns.num_rows, columns.nbytes
        if size_bytes <= self.chunk_bytes or rows <= 1:
            if rows:
                yield columns
            return
        pieces = -(-size_bytes // self.chunk_bytes)
        step = max(1, -(-rows // pieces))
        for start in range(0, rows, step):
            piece = columns.slice(start, step)
            # Rows may differ much in size.
            if piece.num_rows < rows and piece.nbytes > 2 * self.chunk_bytes:
                yield from self.chunks(piece)
            else:
                yield piece
