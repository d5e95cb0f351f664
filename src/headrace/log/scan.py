"""Walking a segment's file from batch to batch, with bounded memory.

Two walks, for two kinds of trust. `find_batch` believes what it reads, for it is below the recovery
point or was written by this process: it looks at heads only. `scan_batches` believes nothing: it
checks lengths, CRCs and the order of offsets, and stops at the first byte that does not hold.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from headrace.log.filesystem import File
from headrace.model.error import CorruptBatch, CorruptLog, UnsupportedBatch
from headrace.records.batch import (
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    Batch,
)

# One index.interval.bytes and a little: usually the one read between an index entry and the batch.
_HEADS_BYTES = 4096 + HEADER_BYTES
_SCAN_BYTES = 1024 * 1024

_OFFSET_AND_LENGTH = Struct(">qi")
_DELTA = Struct(">i")
_SMALLEST_LENGTH = HEADER_BYTES - LOG_OVERHEAD


class FoundBatch(NamedTuple):
    """A batch's place in its file and the offsets it spans."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def find_batch(file: File, offset: int, start: int, end: int) -> FoundBatch | None:
    """The first batch at or behind `start` that ends at `offset` or later; None past the last one.

    `start` is where some batch begins, `end` the number of bytes of the file that count.

    Raises:
        CorruptLog: a head that cannot be one stands there.
    """
    position = start
    heads_at = start
    heads = b""
    while position < end:
        at = position - heads_at
        if at + HEADER_BYTES > len(heads):
            heads = file.pread(min(_HEADS_BYTES, end - position), position)
            heads_at, at = position, 0
            if len(heads) < HEADER_BYTES:
                raise CorruptLog(
                    f"{file.path} ends in the middle of a batch head at byte {position}, "
                    f"though {end} bytes were written"
                )
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(heads, at)
        if length < _SMALLEST_LENGTH:
            raise CorruptLog(
                f"{file.path} is damaged at byte {position}: "
                f"a batch there claims a length of {length} bytes"
            )
        last_offset = base_offset + _DELTA.unpack_from(heads, at + LAST_OFFSET_DELTA_AT)[0]
        if last_offset >= offset:
            return FoundBatch(position, LOG_OVERHEAD + length, base_offset, last_offset)
        position += LOG_OVERHEAD + length
    return None


class BatchScan(Iterator[tuple[int, Batch]]):
    """(position, batch) for every sound batch from `position` on, CRC checked.

    When the iteration is over, `position` is where the sound bytes end, `next_offset` what follows
    them, and `problem` says why it ended there: None at the very end of the file.
    """

    def __init__(self, file: File, position: int, end: int, next_offset: int) -> None:
        self.position = position
        self.next_offset = next_offset
        self.problem: str | None = None
        self._file = file
        self._end = end
        self._chunk = memoryview(b"")
        self._chunk_at = position

    def __next__(self) -> tuple[int, Batch]:
        position = self.position
        if position >= self._end or self.problem is not None:
            raise StopIteration
        try:
            batch = self._batch_at(position)
            batch.validate()
        except (CorruptBatch, UnsupportedBatch) as error:
            self.problem = str(error)
            raise StopIteration from None
        if batch.base_offset < self.next_offset:
            self.problem = (
                f"The batch at byte {position} has base offset {batch.base_offset}, "
                f"but offsets up to {self.next_offset} came before it."
            )
            raise StopIteration
        self.position = position + batch.size_bytes
        self.next_offset = batch.next_offset
        return position, batch

    def _batch_at(self, position: int) -> Batch:
        at = position - self._chunk_at
        left = len(self._chunk) - at
        if left < HEADER_BYTES:
            at = self._read(position, _SCAN_BYTES)
        elif left < (size := self._claimed_size(at)):
            at = self._read(position, max(size, _SCAN_BYTES))
        if len(self._chunk) >= HEADER_BYTES and len(self._chunk) < (size := self._claimed_size(at)):
            at = self._read(position, size)
        return Batch(self._chunk, at)

    def _claimed_size(self, at: int) -> int:
        return int(LOG_OVERHEAD + _DELTA.unpack_from(self._chunk, at + LENGTH_AT)[0])

    def _read(self, position: int, size: int) -> int:
        """Load from `position` on; a batch may claim any size, but the file bounds what is read."""
        data = self._file.pread(min(size, self._end - position), position)
        self._chunk = memoryview(data)
        self._chunk_at = position
        return 0


def walk_heads(file: File, start: int, end: int) -> Iterator[Batch]:
    """The heads of the batches from `start` to `end`, bodies unread; stops before a cut-off one.

    `Batch.position` counts in what was read, not in the file: use the sizes to follow along.

    Raises:
        CorruptLog: a head that cannot be one stands there.
    """
    position = start
    heads_at = start
    heads = memoryview(b"")
    while position + HEADER_BYTES <= end:
        at = position - heads_at
        if at + HEADER_BYTES > len(heads):
            heads = memoryview(file.pread(min(_HEADS_BYTES, end - position), position))
            heads_at, at = position, 0
            if len(heads) < HEADER_BYTES:
                return
        batch = Batch(heads, at)
        if batch.length < _SMALLEST_LENGTH:
            raise CorruptLog(
                f"{file.path} is damaged at byte {position}: "
                f"a batch there claims a length of {batch.length} bytes"
            )
        position += batch.size_bytes
        if position > end:
            return
        yield batch
