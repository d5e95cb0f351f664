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
from headrace.model.error import CorruptBatch, CorruptIndex, CorruptLog
from headrace.records.batch import Batch
from headrace.records.control import ControlType, read_control

_log = structlog.get_logger(__name__)

# Only a lost checkpoint, or hours with too few replicas in sync, leave more than that.
_MOST_WALKED_BYTES = 4 * 1024**3


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
    checked: bool = False,
) -> None:
    """Bring `producers`, which are at `start`, up to `end` from the heads of the batches between.

    Control batches are read whole, for the marker is in their body.

    Args:
        indexed: the segment whose transaction index gets its entries again.
        checked: the caller does not know these bytes to be sound.

    Raises:
        CorruptIndex, CorruptLog, CorruptBatch: the log cannot be walked.
    """
    for segment, position, head in _heads(segments, start, end, checked=checked):
        if head.producer_id < 0:
            continue
        batch = head
        if head.is_control:
            batch = Batch(segment.file().pread(head.size_bytes, position))
            if checked:
                batch.validate()
        placed = PlacedBatch(batch, batch.base_offset, batch.last_offset, batch.max_timestamp)
        remember_batch(producers, segment if segment is indexed else None, placed)


def restore_unreplicated(
    producers: ProducerState,
    snapshots: SnapshotFiles,
    segments: Sequence[Segment],
    start: int,
    high_watermark: int,
) -> None:
    """Let the last stable offset wait for the markers at or above the high watermark that the
    snapshot of `producers` counted already.

    A snapshot lists open transactions only. One that was decided before it, by such a marker, can
    still be undone by a truncation: until the marker is replicated, readers of committed records
    stop at that transaction's first offset.

    It costs nothing if the high watermark is past the snapshot. Else the heads between them are
    read, and a replay follows only if one is a control batch. Where the log cannot be walked,
    because it is damaged or because that would take minutes, readers stop at its start until all
    below the snapshot is replicated.

    Args:
        start: the offset of the snapshot.
    """
    if high_watermark >= start or not producers.has_markers:
        return
    try:
        _find_unreplicated(producers, snapshots, segments, start, high_watermark)
    except (CorruptIndex, CorruptLog, CorruptBatch) as error:
        _log.warning("unreplicated_markers_unknown", below=start, reason=str(error))
        producers.add_unreplicated(segments[0].base_offset, start - 1)


def _find_unreplicated(
    producers: ProducerState,
    snapshots: SnapshotFiles,
    segments: Sequence[Segment],
    start: int,
    high_watermark: int,
) -> None:
    between = segments[floor(segments, high_watermark) : floor(segments, start) + 1]
    if sum(each.size_bytes for each in between) > _MOST_WALKED_BYTES:
        raise CorruptLog(f"the high watermark {high_watermark} lies too far below {start}")
    heads = _heads(segments, high_watermark, start, checked=True)
    if not any(head.is_control for _, _, head in heads):
        return
    first = segments[0].base_offset
    at, entries = snapshots.latest(high_watermark) or (first, [])
    before = ProducerState()
    before.load(entries)
    before.advance(high_watermark)
    replay_producers(before, segments, max(at, first), start, checked=True)
    producers.add_unreplicated_of(before)


def _heads(
    segments: Sequence[Segment], start: int, end: int, *, checked: bool
) -> Iterator[tuple[Segment, int, Batch]]:
    """Yield the heads of the batches that begin from `start` on and below `end`, with segment and
    position in its file. Checksums are not verified.

    Args:
        checked: raise where a segment does not end with a batch, instead of going on behind it.

    Raises:
        CorruptIndex, CorruptLog: the log cannot be walked.
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
        if checked and position != segment.size_bytes:
            raise CorruptLog(f"{segment.path} is damaged at byte {position}: no batch ends there")


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
