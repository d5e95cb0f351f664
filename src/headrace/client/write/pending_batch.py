"""Encoded batches that wait for acknowledgement, and the memory they hold."""

from collections.abc import Iterable
from itertools import count

from headrace.records.batch import LENGTH_AT, Batch

_NO_OFFSET = bytes(LENGTH_AT)
_orders = count()


class SharedBuffer:
    """The memory of batches that were encoded together. It is free when the last of them is done: a
    single batch that waits for a leader keeps all of it."""

    __slots__ = ("_left", "size_bytes")

    def __init__(self, size_bytes: int, batches: int) -> None:
        self.size_bytes = size_bytes
        self._left = batches

    def release(self) -> int:
        """Note that one batch is done; return how many bytes are free now."""
        self._left -= 1
        return 0 if self._left else self.size_bytes


class PendingBatch:
    """One batch for one partition.

    `sequence` is assigned when the batch is first sent and never changes: a broker recognizes by it
    a batch that it has already. `order` is the order of writing.
    """

    __slots__ = ("buffer", "data", "order", "records", "sequence", "tries")

    def __init__(self, data: memoryview, records: int, buffer: SharedBuffer) -> None:
        self.data = data
        self.records = records
        self.buffer = buffer
        self.order = next(_orders)
        self.sequence: int | None = None
        self.tries = 0


def pending_batches(batches: Iterable[memoryview], buffer: SharedBuffer) -> list[PendingBatch]:
    """Wrap encoded batches, in their order. Each gets base offset 0, as a producer's batches have:
    Apache Kafka refuses others."""
    pending = []
    for data in batches:
        data[:LENGTH_AT] = _NO_OFFSET
        pending.append(PendingBatch(data, Batch(data).record_count, buffer))
    return pending
