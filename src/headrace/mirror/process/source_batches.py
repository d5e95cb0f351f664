"""What of a fetch response is copied.

Rule 1: control batches are not copied, nor are records of aborted transactions: a reader of
        committed records does not see them, and at the target only committed ones are written.
Rule 2: the position moves over what is left out.
Rule 3: every batch is checked against its CRC first. The target gets a new one, for the batch then
        has another producer, and damage would be hidden by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from headrace.client.read.batch_reader import FetchedBatches
from headrace.mirror.process.dense_batch import dense_batch
from headrace.model.ids import NO_LEADER_EPOCH, TopicPartition
from headrace.records.batch import (
    ATTRIBUTES_AT,
    HEAD,
    HEADER,
    LAST_CODEC,
    LOG_OVERHEAD,
    MAGIC,
    Batch,
    iter_batches,
    view_of,
)
from headrace.records.control import ControlType, read_control

# Makes a NamedTuple in half the time its own constructor takes.
_new: Final = tuple.__new__


class SourceBatch(NamedTuple):
    """One whole batch for the target.

    Attributes:
        data: can be written to.
        first_offset, last_offset: at the source; the first is -1 where records are missing in it.
        epoch: the leader epoch that it has at the source.
    """

    data: memoryview
    records: int
    first_offset: int
    last_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SourceBatches:
    """Batches of one partition for the target, and where the source goes on after them.

    Attributes:
        partition: at the source.
        batches: may be empty: all of it was left out.
        offset, next_offset: the position before and after.
        records: how many records.
        newest_ms: the latest time of a record, -1 without one.
        first_epoch, last_epoch: leader epochs of the first and the last fetched batch, -1 if none.
        end: where the source's log ends for readers of committed records.
        size_bytes: of all batches.
    """

    partition: TopicPartition
    batches: Sequence[SourceBatch]
    offset: int
    next_offset: int
    records: int
    newest_ms: int
    first_epoch: int
    last_epoch: int
    end: int
    topic_id: UUID | None
    size_bytes: int

    def without_bytes(self) -> "SourceBatches":
        """Return the numbers alone, so that the memory of the batches is free."""
        return replace(self, batches=())

    def split(self, most_bytes: int) -> "tuple[SourceBatches, SourceBatches | None]":
        """Return as many batches as have room, at least one, and the rest if there is one."""
        if self.size_bytes <= most_bytes or len(self.batches) < 2:
            return self, None
        size_bytes = count = 0
        while not count or size_bytes + len(self.batches[count].data) <= most_bytes:
            size_bytes += len(self.batches[count].data)
            count += 1
        taken, left = self.batches[:count], self.batches[count:]
        records, last = sum(each.records for each in taken), taken[-1]
        first_part = replace(
            self,
            batches=taken,
            next_offset=last.last_offset + 1,
            records=records,
            last_epoch=last.epoch,
            size_bytes=size_bytes,
        )
        rest = replace(
            self,
            batches=left,
            offset=last.last_offset + 1,
            records=self.records - records,
            first_epoch=left[0].epoch,
            size_bytes=self.size_bytes - size_bytes,
        )
        return first_part, rest


def source_batches(fetched: FetchedBatches) -> SourceBatches:
    """Choose what is copied of one partition's part of a response.

    Raises:
        CorruptBatch, UnsupportedBatch: bytes that are no batch, or were damaged.
        BatchTooLarge: a batch that must be written again is too large for that.
    """
    aborted = _AbortedTransactions(fetched.aborted)
    kept: list[SourceBatch] = []
    next_offset = fetched.offset
    first_epoch = last_epoch = newest_ms = -1
    records = at = 0
    view = view_of(fetched.data)
    while True:
        whole = _next_whole(view, at, fetched.offset)
        if whole is None:
            batch = next(iter_batches(view, at), None)
            if batch is None:
                break
            at = batch.end
            if batch.last_offset < fetched.offset:
                continue
            batch.validate()
            epoch, next_offset = batch.leader_epoch, batch.next_offset
            taken = None if aborted.leaves_out(batch) else _taken(batch, fetched.offset)
            time_ms = batch.max_timestamp
        else:
            taken, time_ms = whole
            epoch, next_offset = taken.epoch, taken.last_offset + 1
            at += len(taken.data)
        if first_epoch < 0:
            first_epoch = epoch
        last_epoch = epoch
        if taken is not None:
            kept.append(taken)
            records += taken.records
            newest_ms = max(newest_ms, time_ms)
    return SourceBatches(
        fetched.partition,
        kept,
        fetched.offset,
        next_offset,
        records,
        newest_ms,
        first_epoch,
        last_epoch,
        fetched.end,
        fetched.topic_id,
        sum(len(each.data) for each in kept),
    )


def _next_whole(view: memoryview, at: int, offset: int) -> tuple[SourceBatch, int] | None:
    """Return the batch at `at` with its newest time if it can be copied as it is: nearly every one.

    None decides nothing: `Batch` then finds out what it is. Its head is read in one call, because a
    producer with its defaults makes 60,000 batches of a gigabyte.
    """
    if len(view) - at < HEADER.size:
        return None
    (base, length, epoch, magic, crc, attributes, delta, _, newest_ms, _, _, _, count) = (
        HEADER.unpack_from(view, at)
    )
    end = at + LOG_OVERHEAD + length
    if (
        magic != MAGIC
        or not 0 <= attributes <= LAST_CODEC
        or base < offset
        or not 0 <= delta == count - 1
        or not at + HEADER.size <= end <= len(view)
        or crc32c(view[at + ATTRIBUTES_AT : end]) != crc
    ):
        return None
    data = view[at:end]
    HEAD.pack_into(data, 0, 0, length, NO_LEADER_EPOCH)
    return _new(SourceBatch, (data, count, base, base + delta, epoch)), newest_ms


def _taken(batch: Batch, offset: int) -> SourceBatch | None:
    """Return a batch's records from an offset on; None if there are none."""
    wanted = max(batch.base_offset, offset)
    last_offset = batch.last_offset
    data = dense_batch(batch, wanted)
    if data is None:
        return None
    HEAD.pack_into(data, 0, 0, len(data) - LOG_OVERHEAD, NO_LEADER_EPOCH)
    count = Batch(data).record_count
    # Where records are missing, the first one that is left is not known without a look inside.
    whole = count == last_offset - wanted + 1
    return SourceBatch(data, count, wanted if whole else -1, last_offset, batch.leader_epoch)


class _AbortedTransactions:
    """Follows the aborted transactions of a response over its batches (KIP-98)."""

    def __init__(self, aborted: list[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=lambda pair: pair[1], reverse=True)
        self._active: set[int] = set()

    def leaves_out(self, batch: Batch) -> bool:
        """Return whether a batch, the next one, is control or part of an aborted transaction."""
        while self._waiting and self._waiting[-1][1] <= batch.last_offset:
            self._active.add(self._waiting.pop()[0])
        if batch.is_control:
            if batch.producer_id in self._active:
                record = read_control(batch)
                if record is not None and record.type is ControlType.ABORT:
                    self._active.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._active
