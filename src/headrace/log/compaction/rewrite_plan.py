"""What compaction does with each batch, decided by its head and the transactions around it.

The decision about the single records of a batch is `BatchFilter`'s.
"""

from collections.abc import Iterable

import numpy as np

from headrace.log.compaction.cleaned_transactions import CleanedTransactions
from headrace.log.compaction.live_offsets import LiveOffsets
from headrace.log.compaction.segment_chunk import SegmentChunk
from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.log.producer.producer_entry import ProducerEntry
from headrace.model.error import CorruptBatch
from headrace.records.batch import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from headrace.records.control import ControlType, read_control
from headrace.records.kernel import batch_table
from headrace.records.kernel.memory import Int64s


def plan_mapping(chunk: SegmentChunk, transactions: CleanedTransactions) -> None:
    """Plan the first pass: open all batches but markers and aborted data."""
    batches = chunk.batches
    batches[:, batch_table.PLAN] = batch_table.PLAN_FILTER
    for row in _transactional_rows(chunk):
        producer_id = int(batches[row, batch_table.PRODUCER_ID])
        last_offset = int(batches[row, batch_table.LAST_OFFSET])
        if int(batches[row, batch_table.ATTRIBUTES]) & CONTROL_BIT:
            transactions.on_marker(producer_id, _control_type(chunk, row), last_offset)
            batches[row, batch_table.PLAN] = batch_table.PLAN_COPY
        elif transactions.on_data(producer_id, last_offset):
            batches[row, batch_table.PLAN] = batch_table.PLAN_DISCARD


class RewritePlan:
    """Plans the second pass: what is done with each batch, before its records are read."""

    def __init__(
        self,
        *,
        end_offset: int,
        range_end: int,
        now_ms: int,
        aborted: Iterable[AbortedTransactionEntry],
        producers: Iterable[ProducerEntry],
        live: LiveOffsets,
    ) -> None:
        """
        Args:
            end_offset: the first offset whose keys are not mapped.
            range_end: where the segments that may be rewritten end.
            aborted: the transactions that were aborted in all of the log up to there.
            producers: those the log remembers now.
            live: where the mapped keys have their newest records.
        """
        self._live = live
        self._end_offset = end_offset
        self._range_end = range_end
        self._now_ms = now_ms
        self._transactions = CleanedTransactions(aborted)
        self._producers = {entry.producer_id: entry for entry in producers}
        lasts = [e.last_offset for e in self._producers.values() if e.last_offset >= 0]
        self._last_offsets = np.array(sorted(lasts), dtype=np.int64)

    def set(self, chunk: SegmentChunk) -> list[AbortedTransactionEntry]:
        """Set PLAN and RETAIN; return the aborted transactions whose index entries stay."""
        batches = chunk.batches
        mapped = batches[:, batch_table.BASE_OFFSET] < self._end_offset
        batches[:, batch_table.PLAN] = np.where(
            mapped, batch_table.PLAN_FILTER, batch_table.PLAN_COPY
        )
        lost = self._live.lacks(
            batches[:, batch_table.BASE_OFFSET], batches[:, batch_table.LAST_OFFSET]
        )
        batches[lost, batch_table.PLAN] = batch_table.PLAN_DISCARD
        self._set_retain(batches)
        kept: list[AbortedTransactionEntry] = []
        for row in _transactional_rows(chunk):
            producer_id = int(batches[row, batch_table.PRODUCER_ID])
            last_offset = int(batches[row, batch_table.LAST_OFFSET])
            if int(batches[row, batch_table.ATTRIBUTES]) & CONTROL_BIT:
                type_ = _control_type(chunk, row)
                gone, entry = self._transactions.on_marker(producer_id, type_, last_offset)
                if entry is not None:
                    kept.append(entry)
                batches[row, batch_table.PLAN] = self._marker_plan(batches[row].tolist(), gone)
                self._retain_last_marker(batches, row)
            elif self._transactions.on_data(producer_id, last_offset):
                batches[row, batch_table.PLAN] = batch_table.PLAN_DISCARD
        return kept

    def _set_retain(self, batches: Int64s) -> None:
        """Keep the head of an emptied batch that something still needs.

        The last batch of a producer tells its last sequence and epoch when the producer state has
        to be rebuilt from the log; the last batch of the range tells where its offsets end.
        """
        last_offset = batches[:, batch_table.LAST_OFFSET]
        retain = last_offset + 1 == self._range_end
        if len(self._last_offsets):
            candidates = (batches[:, batch_table.PRODUCER_ID] >= 0) & np.isin(
                last_offset, self._last_offsets
            )
            for row in np.flatnonzero(candidates).tolist():
                entry = self._producers.get(int(batches[row, batch_table.PRODUCER_ID]))
                if entry is not None and entry.last_offset == int(last_offset[row]):
                    retain[row] = True
        batches[:, batch_table.RETAIN] = retain

    def _retain_last_marker(self, batches: Int64s, row: int) -> None:
        """Keep the only marker of a producer without batches: its epoch fences the producer."""
        entry = self._producers.get(int(batches[row, batch_table.PRODUCER_ID]))
        if entry is None or entry.last_offset >= 0:
            return
        if entry.epoch == int(batches[row, batch_table.PRODUCER_EPOCH]):
            batches[row, batch_table.RETAIN] = 1

    def _marker_plan(self, row: list[int], gone: bool) -> int:
        if row[batch_table.COUNT] == 0:
            return batch_table.PLAN_DISCARD
        if not gone:
            return batch_table.PLAN_COPY
        if not row[batch_table.ATTRIBUTES] & DELETE_HORIZON_BIT:
            return batch_table.PLAN_STAMP
        if row[batch_table.BASE_TIMESTAMP] <= self._now_ms:
            return batch_table.PLAN_DISCARD
        return batch_table.PLAN_COPY


def _transactional_rows(chunk: SegmentChunk) -> list[int]:
    special = chunk.batches[:, batch_table.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT)
    rows: list[int] = np.flatnonzero(special).tolist()
    return rows


def _control_type(chunk: SegmentChunk, row: int) -> ControlType:
    """Return what a control batch says; UNKNOWN when compaction emptied it before."""
    try:
        record = read_control(chunk.batch(row))
    except CorruptBatch as error:
        raise chunk.damaged(row, str(error)) from error
    return ControlType.UNKNOWN if record is None else record.type
