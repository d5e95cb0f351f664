"""Encoded batches on their way to a broker, and the memory they hold."""

from collections.abc import Iterable
from itertools import count

from headrace.records.batch import LENGTH_AT, Batch

_NO_OFFSET = bytes(LENGTH_AT)
_orders = count()


class SharedBuffer:
    """The memory of batches that were encoded together. It is free when the last of them is done:
    one that waits for a leader keeps all of it."""

    __slots__ = ("_left", "size_bytes")

    def __init__(self, size_bytes: int, batches: int) -> None:
        self.size_bytes = size_bytes
        self._left = batches

    def let_go(self) -> int:
        """One batch is done; returns how many bytes are free now."""
        self._left -= 1
        return 0 if self._left else self.size_bytes


class PendingBatch:
    """One batch for one partition.

    `sequence` is given when it is sent first and stays: it is how a broker tells that it has the
    batch already. `order` is that of writing.
    """

    __slots__ = ("data", "order", "records", "room", "sequence", "tries")

    def __init__(self, data: memoryview, records: int, room: SharedBuffer) -> None:
        self.data = data
        self.records = records
        self.room = room
        self.order = next(_orders)
        self.sequence: int | None = None
        self.tries = 0


def pending_batches(batches: Iterable[memoryview], room: SharedBuffer) -> list[PendingBatch]:
    """Batches in the order in which they were encoded. Each starts at offset 0, as a producer's
    batches do: Apache Kafka refuses others."""
    found = []
    for data in batches:
        data[:LENGTH_AT] = _NO_OFFSET
        found.append(PendingBatch(data, Batch(data).record_count, room))
    return found
