"""What of a fetch response is copied.

Rule 1: control batches are not copied, nor are records of aborted transactions: a reader of
        committed records does not see them, and at the target only committed ones are written.
Rule 2: the position moves over what is left out.
Rule 3: every batch is checked against its CRC first. The target gets a new one, for the batch then
        has another producer, and damage would be hidden by it.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from headrace.client.read.batch_reader import FetchedBatches
from headrace.mirror.process.dense_batch import dense_batch
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch, iter_batches
from headrace.records.control import ControlType, read_control


@dataclass(frozen=True, slots=True)
class SourceBatches:
    """Batches of one partition for the target, and where the source goes on after them.

    Attributes:
        partition: at the source.
        batches: whole batches that can be written to. May be empty: all of it was left out.
        first_offsets, last_offsets: of each batch, at the source; the first is -1 where records are
            missing in it.
        offset, next_offset: the position before and after.
        first_offset: of the first record in `batches`; -1 without one.
        records: how many records.
        newest_ms: the latest time of a record, -1 without one.
        first_epoch, last_epoch: leader epochs of the first and the last fetched batch, -1 if none.
        end: where the source's log ends for readers of committed records.
        size_bytes: of all batches.
    """

    partition: TopicPartition
    batches: list[memoryview]
    first_offsets: list[int]
    last_offsets: list[int]
    offset: int
    next_offset: int
    first_offset: int
    records: int
    newest_ms: int
    first_epoch: int
    last_epoch: int
    end: int
    topic_id: UUID | None
    size_bytes: int

    def without_bytes(self) -> "SourceBatches":
        """Return the numbers alone, so that the memory of the batches is free."""
        return replace(self, batches=[], first_offsets=[], last_offsets=[])


def source_batches(fetched: FetchedBatches) -> SourceBatches:
    """Choose what is copied of one partition's part of a response.

    Raises:
        CorruptBatch, UnsupportedBatch: bytes that are no batch, or were damaged.
        BatchTooLarge: a batch that must be written again is too large for that.
    """
    aborted = _AbortedTransactions(fetched.aborted)
    kept: list[memoryview] = []
    first_offsets: list[int] = []
    last_offsets: list[int] = []
    next_offset, first_offset = fetched.offset, -1
    first_epoch = last_epoch = newest_ms = -1
    records = 0
    for batch in iter_batches(fetched.data):
        if batch.last_offset < fetched.offset:
            continue
        batch.validate()
        if first_epoch < 0:
            first_epoch = batch.leader_epoch
        last_epoch = batch.leader_epoch
        next_offset = batch.next_offset
        if aborted.leaves_out(batch):
            continue
        wanted = max(batch.base_offset, fetched.offset)
        data = dense_batch(batch, wanted)
        if data is None:
            continue
        kept.append(data)
        count = Batch(data).record_count
        # Where records are missing, the first one that is left is not known without a look inside.
        whole = count == batch.last_offset - wanted + 1
        first_offsets.append(wanted if whole else -1)
        last_offsets.append(batch.last_offset)
        if first_offset < 0:
            first_offset = wanted
        newest_ms = max(newest_ms, batch.max_timestamp)
        records += count
    return SourceBatches(
        fetched.partition,
        kept,
        first_offsets,
        last_offsets,
        fetched.offset,
        next_offset,
        first_offset,
        records,
        newest_ms,
        first_epoch,
        last_epoch,
        fetched.end,
        fetched.topic_id,
        sum(map(len, kept)),
    )


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
