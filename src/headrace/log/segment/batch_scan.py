"""Walking a segment's file from batch to batch, with bounded memory.

Two walks, for two kinds of trust. `find_batch` trusts what it reads, for it is below the recovery
point or was written by this process: it looks at heads only. `BatchScan` trusts nothing: it checks
lengths, CRCs and the order of offsets, and stops at the first byte that does not hold.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from headrace.log.filesystem import File
from headrace.model.error import CorruptBatch, CorruptLog, UnsupportedBatch
from headrace.records.batch import (
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    Batch,
)

# One index.interval.bytes and a little: usually the one read between an index entry and the batch.
_HEADS_BYTES = 4096 + HEADER_BYTES
_SCAN_BYTES = 1024 * 1024

_OFFSET_AND_LENGTH = Struct(">qi")
_DELTA = Struct(">i")
_SMALLEST_LENGTH = HEADER_BYTES - LOG_OVERHEAD


class BatchPosition(NamedTuple):
    """A batch's place in its file and the offsets it spans."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def find_batch(file: File, offset: int, start: int, end: int) -> BatchPosition | None:
    """Find the first batch at or behind `start` that ends at `offset` or later; None past the last.

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
            return BatchPosition(position, LOG_OVERHEAD + length, base_offset, last_offset)
        position += LOG_OVERHEAD + length
    return None


class BatchScan:
    """Iterates over (position, batch) for every sound batch from `position` on, CRC checked.

    When the iteration is over, `position` is where the sound bytes end, `next_offset` what follows
    them, and `problem` says why it ended there: None at the very end of the file. While it goes on
    they stand behind the batch that was given last.
    """

    __slots__ = ("_end", "_file", "next_offset", "position", "problem")

    def __init__(self, file: File, position: int, end: int, next_offset: int) -> None:
        self.position = position
        self.next_offset = next_offset
        self.problem: str | None = None
        self._file = file
        self._end = end

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        size = _SCAN_BYTES
        try:
            while self.position < self._end:
                chunk_at = self.position
                chunk = memoryview(self._file.pread(min(size, self._end - chunk_at), chunk_at))
                yield from self._sound_batches(chunk)
                size = _SCAN_BYTES
                if self.position == chunk_at:
                    # Not one whole batch: it is larger than a chunk, or it is torn. A batch may
                    # claim any size, but the file bounds what is read for it.
                    batch = Batch(chunk)
                    if not len(chunk) < batch.size_bytes <= self._end - chunk_at:
                        batch.validate()
                    size = batch.size_bytes
        except (CorruptBatch, UnsupportedBatch) as error:
            self.problem = f"At byte {self.position} of the file: {error}"

    def _sound_batches(self, chunk: memoryview) -> Iterator[tuple[int, Batch]]:
        """Yield the whole batches of a chunk: recovery of millions of small ones waits here."""
        at = 0
        last_head = len(chunk) - HEADER_BYTES
        while at <= last_head:
            batch = Batch(chunk, at)
            size = LOG_OVERHEAD + batch.length
            if at + size > len(chunk):
                return
            batch.validate()
            if batch.base_offset < self.next_offset:
                raise CorruptBatch(
                    f"it has base offset {batch.base_offset}, "
                    f"but offsets up to {self.next_offset} came before it."
                )
            position = self.position
            self.position = position + size
            self.next_offset = batch.base_offset + batch.last_offset_delta + 1
            yield position, batch
            at += size


def walk_heads(file: File, start: int, end: int) -> Iterator[Batch]:
    """Yield the heads of the batches from `start` to `end`, and stop before a cut-off one.

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
