"""Turns rows into record batches: cuts them into chunks, assigns partitions, encodes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from headrace.client.write.pending_batch import PendingBatch, SharedBuffer, pending_batches
from headrace.client.write.row_partitioner import Columns, RowPartitioner
from headrace.records.compression import Codec
from headrace.records.encode import encode

Placed: TypeAlias = tuple[int, list[PendingBatch]]
"""A partition, and batches for it in their order."""


# What a record has besides key, value and headers, less the offsets that Arrow counts.
_ROW_OVERHEAD_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """How rows are encoded.

    Attributes:
        batch_bytes: where a batch is full, before compression.
        chunk_bytes: about how many bytes of rows are encoded at once, into one shared buffer.
    """

    codec: Codec
    level: int | None
    batch_bytes: int
    chunk_bytes: int

    def encode(
        self, partitioner: RowPartitioner, columns: Columns
    ) -> tuple[SharedBuffer, list[Placed]]:
        """Return one chunk's batches by partition, and the buffer they share.

        Raises:
            InvalidArgument: rows that cannot become records.
        """
        run_rows = columns.num_rows * self.batch_bytes // max(1, columns.nbytes)
        now_ms = time.time_ns() // 1_000_000
        encoded: list[tuple[int, list[memoryview]]] = []
        for partition, rows in partitioner.split(columns, run_rows):
            batches = encode(
                rows,
                timestamp_ms=now_ms,
                max_batch_bytes=self._even_bytes(rows),
                codec=self.codec,
                level=self.level,
            ).batches
            if partition is None:
                encoded += [(partitioner.next(), [batch]) for batch in batches]
            else:
                encoded.append((partition, batches))
        size_bytes = sum(len(batch) for _, batches in encoded for batch in batches)
        buffer = SharedBuffer(size_bytes, sum(len(batches) for _, batches in encoded))
        return buffer, [
            (partition, pending_batches(batches, buffer)) for partition, batches in encoded
        ]

    def _even_bytes(self, rows: Columns) -> int:
        """Return a size at which these rows fill batches evenly, instead of all but the last."""
        expected: int = rows.nbytes + rows.num_rows * _ROW_OVERHEAD_BYTES
        count = -(-expected // self.batch_bytes)
        if count < 2:
            return self.batch_bytes
        return min(self.batch_bytes, -(-expected // count) + expected // 64)

    def chunks(self, columns: Columns) -> Iterator[Columns]:
        """Yield slices of about `chunk_bytes`, or of one row if that is larger."""
        rows, size_bytes = columns.num_rows, columns.nbytes
        if size_bytes <= self.chunk_bytes or rows <= 1:
            if rows:
                yield columns
            return
        count = -(-size_bytes // self.chunk_bytes)
        step = max(1, -(-rows // count))
        for start in range(0, rows, step):
            chunk = columns.slice(start, step)
            # Rows may differ widely in size.
            if chunk.num_rows < rows and chunk.nbytes > 2 * self.chunk_bytes:
                yield from self.chunks(chunk)
            else:
                yield chunk
