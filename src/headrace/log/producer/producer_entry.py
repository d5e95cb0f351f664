"""One producer of a partition: its epoch, its last batches, and its open transaction."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from headrace.model.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE
from headrace.model.offset import NO_OFFSET, NO_TIMESTAMP_MS, Offset
from headrace.records.batch import MAX_INT32, add_sequence

# What max.in.flight.requests.per.connection may be at most for an idempotent producer.
REMEMBERED_BATCHES = 5
_NO_COORDINATOR_EPOCH = -1
# Builds a NamedTuple in half the time its own constructor needs.
_new = tuple.__new__


class BatchMetadata(NamedTuple):
    """What a partition remembers of one batch of a producer."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class Duplicate(NamedTuple):
    """The batch was appended before, at these offsets: the response it gets again."""

    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class ProducerEntry:
    """What a partition remembers of one producer. Only the log that owns the entry changes it."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "next_sequence",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = _NO_COORDINATOR_EPOCH,
        last_timestamp_ms: int = NO_TIMESTAMP_MS,
        transaction_first_offset: int = NO_OFFSET,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.transaction_first_offset = transaction_first_offset
        self.batches: deque[BatchMetadata] = deque(batches, REMEMBERED_BATCHES)
        self.next_sequence = add_sequence(self.last_sequence, 1)

    def copy(self) -> "ProducerEntry":
        """Return the same producer, which does not change with this one."""
        copy = ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp_ms,
            self.transaction_first_offset,
            self.batches,
        )
        copy.next_sequence = self.next_sequence
        return copy

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Of the last batch with records, -1 when none of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def in_transaction(self) -> bool:
        return self.transaction_first_offset >= 0

    def start_epoch(self, epoch: int) -> None:
        """Begin at sequence 0 if `epoch` is new, and forget the batches of the one before."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def remember(
        self,
        first_sequence: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp_ms: int,
    ) -> None:
        """Remember a batch of its present epoch that is in the log."""
        delta = last_offset - base_offset
        row = (first_sequence, last_sequence, last_offset, delta, timestamp_ms)
        self.batches.append(_new(BatchMetadata, row))
        self.next_sequence = (last_sequence + 1) & MAX_INT32
        self.last_timestamp_ms = timestamp_ms

    def duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> Duplicate | None:
        if epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return Duplicate(
                    Offset(batch.first_offset), Offset(batch.last_offset), batch.timestamp_ms
                )
        return None

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Return whether it was idle for too long; never while a transaction is open, because its
        marker must find the entry.
        """
        return not self.in_transaction and now_ms - self.last_timestamp_ms >= expiration_ms

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerEntry):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"ProducerEntry({fields})"
