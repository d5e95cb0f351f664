"""Where compressed batches of one decode are inflated to: one buffer behind the other."""

import numpy as np

from headrace.model.error import BatchTooLarge, CorruptBatch
from headrace.records.batch import CODEC_MASK, HEADER_BYTES
from headrace.records.compression import Codec, guess_inflated_bytes, inflate_into
from headrace.records.heads import Heads
from headrace.records.kernel.heads import (
    ATTRIBUTES,
    COUNT,
    END,
    INFLATED,
    POSITION,
    SIZE,
    SKIP,
    START,
)
from headrace.records.kernel.memory import Bytes
from headrace.records.kernel.rows import MIN_RECORD_BYTES


class Arena:
    """The inflated records of compressed batches, all in one growing buffer.

    One buffer, because the record kernel and an Arrow view column both refer to bytes by their
    position in one. It never grows past `limit_bytes`. Pages that are not written to cost nothing,
    so a guess that is too large is cheap. Belongs to one call and so to one thread.
    """

    __slots__ = ("_buffer", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._buffer: Bytes = np.empty(0, dtype=np.uint8)

    @property
    def content(self) -> Bytes:
        """What was inflated so far. Invalid after the next `fill`."""
        return self._buffer[: self.used_bytes]

    def fill(self, heads: Heads) -> int:
        """Inflate the batches of `heads` that are not skipped, and point their rows here.

        Returns how many batches of the table may be decoded now: all, or those before the first
        that no longer fits into the arena.

        Raises:
            BatchTooLarge: the first one alone does not fit.
            CorruptBatch: a batch does not inflate, or to fewer bytes than its records take.
        """
        columns = (ATTRIBUTES, SKIP, POSITION, SIZE, COUNT)
        fields = heads.table[:, columns].tolist()
        self._reserve(self._guess(heads, fields))
        for row, (attributes, skip, position, size, count) in enumerate(fields):
            if skip or not attributes & CODEC_MASK:
                continue
            start = self.used_bytes
            data = heads.view[position + HEADER_BYTES : position + size]
            if not self._inflate(Codec(attributes & CODEC_MASK), data):
                if start == 0:
                    raise BatchTooLarge(
                        f"The batch at byte {position} of {size} bytes inflates to more than "
                        f"the {self.limit_bytes} bytes allowed."
                    )
                return row
            if count > (self.used_bytes - start) // MIN_RECORD_BYTES:
                raise CorruptBatch(
                    f"The batch at byte {position} counts {count} records, but inflates to only "
                    f"{self.used_bytes - start} bytes."
                )
            heads.table[row, INFLATED] = 1
            heads.table[row, START] = start
            heads.table[row, END] = self.used_bytes
        return len(fields)

    def _guess(self, heads: Heads, fields: list[list[int]]) -> int:
        total = 0
        for attributes, skip, position, size, _count in fields:
            if not skip and attributes & CODEC_MASK:
                data = heads.view[position + HEADER_BYTES : position + size]
                total += guess_inflated_bytes(Codec(attributes & CODEC_MASK), data)
                if total >= self.limit_bytes:
                    break
        return total

    def _inflate(self, codec: Codec, data: memoryview) -> bool:
        """Inflate one batch; False when it does not fit even into the largest arena allowed."""
        while True:
            size = inflate_into(codec, data, self._buffer[self.used_bytes :].data)
            if size is not None:
                self.used_bytes += size
                return True
            if len(self._buffer) >= self.limit_bytes:
                return False
            self._reserve(max(2 * len(self._buffer), self.used_bytes + 8 * len(data)))

    def _reserve(self, capacity: int) -> None:
        larger = np.empty(min(capacity, self.limit_bytes), dtype=np.uint8)
        larger[: self.used_bytes] = self._buffer[: self.used_bytes]
        self._buffer = larger
