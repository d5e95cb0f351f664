"""A piece of a segment as columns: how compaction reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct

import numpy as np

from headrace.log.compaction.inflater import Inflater
from headrace.log.filesystem import File
from headrace.model.error import BatchTooLarge, CorruptBatch, UncleanableLog
from headrace.records.batch import CODEC_MASK, HEADER_BYTES, LENGTH_AT, LOG_OVERHEAD, Batch
from headrace.records.kernel import batch_table
from headrace.records.kernel.memory import Bytes, Int64s, readable

_LENGTH = Struct(">i")


@dataclass(slots=True)
class SegmentChunk:
    """Whole batches that lie one after the other in a file, with one row of `batches` for each.

    Attributes:
        data: their bytes, CRCs checked.
        batches: `kernel.batch_table` names the columns. The array is used again for the next chunk.
        position: where in the file `data` begins.
    """

    file: File
    position: int
    data: Bytes
    batches: Int64s

    def batch(self, row: int) -> Batch:
        """Return the head of one row, for the few that need more than columns."""
        return Batch(self.data.data, int(self.batches[row, batch_table.POSITION]))

    def bodies(self, inflater: Inflater) -> Iterator[tuple[Bytes, int, int]]:
        """Yield (body, first row, last row + 1): all rows in order, and the bytes of their records.

        A compressed batch that has to be opened is inflated and comes alone; BODY_START and
        BODY_END then count in the inflated bytes. All between two such batches come as one run.

        Raises:
            UncleanableLog: a batch does not inflate, or to more than the inflater allows.
        """
        plan = self.batches[:, batch_table.PLAN]
        opened = (plan == batch_table.PLAN_FILTER) | (plan == batch_table.PLAN_STAMP)
        compressed = self.batches[:, batch_table.ATTRIBUTES] & CODEC_MASK != 0
        start = 0
        rows: list[int] = np.flatnonzero(opened & compressed).tolist()
        inflated = inflater.inflate([self.batch(row) for row in rows])
        for row in rows:
            if row > start:
                yield self.data, start, row
            yield self._next_body(row, inflated), row, row + 1
            start = row + 1
        if start < len(self.batches):
            yield self.data, start, len(self.batches)

    def _next_body(self, row: int, inflated: Iterator[memoryview]) -> Bytes:
        try:
            body = next(inflated)
        except (CorruptBatch, BatchTooLarge, ValueError) as error:
            raise self.damaged(row, str(error)) from error
        count = int(self.batches[row, batch_table.COUNT])
        if len(body) // batch_table.MIN_RECORD_BYTES < count:
            raise self.damaged(row, f"it claims {count} records in {len(body)} inflated bytes")
        self.batches[row, batch_table.BODY_START] = 0
        self.batches[row, batch_table.BODY_END] = len(body)
        return readable(body)

    def damaged(self, row: int, what: str) -> UncleanableLog:
        position = self.position + int(self.batches[row, batch_table.POSITION])
        return _damaged(self.file, position, what)


class ChunkReader:
    """Reads segments chunk by chunk, with memory for one chunk.

    A batch larger than a chunk is read whole, alone. Every CRC is checked, because compaction
    gives what it rewrites a new one.
    """

    def __init__(self, chunk_bytes: int, on_read: Callable[[int], object]) -> None:
        """`on_read` is called with the size of each read, before the work. It may sleep, or raise
        to stop.
        """
        self._chunk_bytes = chunk_bytes
        self._on_read = on_read
        rows = chunk_bytes // HEADER_BYTES + 1
        self._table: Int64s = np.empty((rows, batch_table.COLUMNS), dtype=np.int64)

    def read(self, file: File, start: int, end: int) -> Iterator[SegmentChunk]:
        """Yield the batches of `file` between two positions, both at batch boundaries."""
        position = start
        size = self._chunk_bytes
        while position < end:
            data = readable(file.pread(min(size, end - position), position))
            self._on_read(len(data))
            rows, used = batch_table.scan(data, len(data), self._table)
            if rows < 0:
                raise _damaged(file, position + used, "a batch head cannot be true")
            if rows == 0:
                size = self._first_batch_bytes(file, data, position, end)
                continue
            chunk = SegmentChunk(file, position, data[:used], self._table[:rows])
            row = batch_table.first_damaged(data, chunk.batches, rows)
            if row >= 0:
                raise chunk.damaged(row, "the CRC32C of a batch does not hold")
            yield chunk
            position += used
            size = self._chunk_bytes

    def _first_batch_bytes(self, file: File, data: Bytes, position: int, end: int) -> int:
        """Return how much has to be read to get the batch at `position` whole."""
        if len(data) >= HEADER_BYTES:
            (length,) = _LENGTH.unpack_from(data.data, LENGTH_AT)
            size = int(length) + LOG_OVERHEAD
            if len(data) < size <= end - position:
                return size
        raise _damaged(file, position, "a batch is cut off by the end of the segment")


def _damaged(file: File, position: int, what: str) -> UncleanableLog:
    return UncleanableLog(f"{file.path} is damaged at byte {position}: {what}")
