"""Bringing the producer state and the transaction index up to a batch that is in the log.

Append and recovery share this code, so that a replay gives the state that the appends gave.
"""

from collections.abc import Iterator, Sequence

import structlog

from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.log.producer.producer_state import ProducerState
from headrace.log.producer.snapshot_files import SnapshotFiles
from headrace.log.segment.batch_scan import walk_heads
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.model.error import CorruptIndex, CorruptLog
from headrace.records.batch import Batch
from headrace.records.control import ControlType, read_control

_log = structlog.get_logger(__name__)


def remember_batch(producers: ProducerState, segment: Segment | None, placed: PlacedBatch) -> None:
    """Bring `producers` up to a batch, and the transaction index of `segment` up to its marker.

    Args:
        segment: the one that holds the batch; None when its index knows of it already.
    """
    batch, base_offset, last_offset, timestamp_ms = placed
    if batch.producer_id < 0:
        return
    if batch.is_control:
        _remember_marker(producers, segment, placed)
        return
    producers.append(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.last_sequence,
        base_offset,
        last_offset,
        timestamp_ms,
        transactional=batch.is_transactional,
    )


def replay_producers(
    producers: ProducerState,
    segments: Sequence[Segment],
    start: int,
    end: int,
    *,
    indexed: Segment | None = None,
) -> None:
    """Bring `producers`, which are at `start`, up to `end` from the heads of the batches between.

    Control batches are read whole, for the marker is in their body.

    Args:
        indexed: the segment whose transaction index gets its entries again.
    """
    for segment, position, head in _heads(segments, start, end):
        if head.producer_id < 0:
            continue
        batch = head
        if head.is_control:
            batch = Batch(segment.file().pread(head.size_bytes, position))
        placed = PlacedBatch(batch, batch.base_offset, batch.last_offset, batch.max_timestamp)
        remember_batch(producers, segment if segment is indexed else None, placed)


def recall_unreplicated(
    producers: ProducerState,
    snapshots: SnapshotFiles,
    segments: Sequence[Segment],
    start: int,
    high_watermark: int,
) -> None:
    """Let `producers`, loaded from a snapshot at `start`, wait for the markers below it that lie at
    or above the high watermark.

    A snapshot tells what is open. A transaction that was ended before it is not, but its marker may
    still be lost with this replica's end: until it is replicated, readers of committed records must
    not pass where the transaction began. Usually there is no such marker: the high watermark is
    past the snapshot, or only the heads between the two are read.

    Where the log cannot be walked, because an index or a head is damaged, readers wait at the start
    until all below the snapshot is replicated.
    """
    if high_watermark >= start or not producers.has_markers:
        return
    try:
        _recall_unreplicated(producers, snapshots, segments, start, high_watermark)
    except (CorruptIndex, CorruptLog) as error:
        _log.warning("unreplicated_markers_unknown", below=start, reason=str(error))
        producers.wait_for(segments[0].base_offset, start - 1)


def _recall_unreplicated(
    producers: ProducerState,
    snapshots: SnapshotFiles,
    segments: Sequence[Segment],
    start: int,
    high_watermark: int,
) -> None:
    heads = _heads(segments, high_watermark, start)
    if not any(head.is_control for _, _, head in heads):
        return
    first = segments[0].base_offset
    at, entries = snapshots.latest(high_watermark) or (first, [])
    before = ProducerState()
    before.load(entries)
    before.advance(high_watermark)
    replay_producers(before, segments, max(at, first), start)
    producers.wait_as(before)


def _heads(
    segments: Sequence[Segment], start: int, end: int
) -> Iterator[tuple[Segment, int, Batch]]:
    """Yield the heads of the batches that begin from `start` on and below `end`, with their places.

    Nothing is verified: the caller knows these bytes to be sound.
    """
    for segment in segments[floor(segments, start) :]:
        if segment.base_offset >= end:
            return
        position = segment.offset_index.lookup(start).position
        for head in walk_heads(segment.file(), position, segment.size_bytes):
            if head.base_offset >= end:
                return
            if head.base_offset >= start:
                yield segment, position, head
            position += head.size_bytes


def _remember_marker(
    producers: ProducerState, segment: Segment | None, placed: PlacedBatch
) -> None:
    batch: Batch = placed.batch
    control = read_control(batch)
    if control is None or not control.ends_transaction:
        return
    completed = producers.end_transaction(
        batch.producer_id,
        batch.producer_epoch,
        control.coordinator_epoch,
        placed.last_offset,
        placed.max_timestamp_ms,
        aborted=control.type is ControlType.ABORT,
    )
    if completed is not None and completed.aborted and segment is not None:
        segment.transaction_index.append(
            AbortedTransactionEntry(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                completed.last_stable_offset,
            )
        )
