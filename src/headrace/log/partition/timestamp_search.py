"""Finding a record by its time, as ListOffsets asks for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.log.segment.batch_scan import walk_heads
from headrace.log.segment.segment import Segment
from headrace.model.offset import NO_OFFSET, NO_TIMESTAMP_MS, Offset
from headrace.records.batch import LOG_APPEND_TIME, Batch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FoundRecord(NamedTuple):
    """One record found by time, as a ListOffsets response carries it. All -1 when there is none."""

    timestamp_ms: int = NO_TIMESTAMP_MS
    offset: Offset = NO_OFFSET
    leader_epoch: int = -1


_NOTHING = FoundRecord()


def search_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, *, start: int, end: int
) -> FoundRecord:
    """Return the first record within start..end whose timestamp is at or after `timestamp_ms`.

    Producers' clocks differ, so timestamps may run backwards; "first" is by offset. The time index
    leads to the right place of the right segment, heads lead to the batch, and one batch is opened.

    Raises:
        FileNotFoundError: a segment left the log meanwhile; search the new list.
    """
    for segment in segments:
        if segment.max_timestamp_ms >= timestamp_ms:
            found = _search_segment(segment, timestamp_ms, start)
            if found.offset >= 0:
                return found if found.offset < end else _NOTHING
    return _NOTHING


def newest_timestamp(segments: Sequence[Segment], start: int) -> int:
    """Return the greatest timestamp of a record at `start` or behind it, or -1."""
    newest = NO_TIMESTAMP_MS
    for segment in segments:
        if segment.max_timestamp_ms > newest:
            newest = max(newest, _newest_in(segment, start))
    return newest


def _newest_in(segment: Segment, start: int) -> int:
    first = segment.find(start)
    if first is None:
        return NO_TIMESTAMP_MS
    # The batch that holds the log start may have its newest record below it.
    whole_from = first.base_offset if first.base_offset >= start else first.last_offset + 1
    if segment.offset_of_max_timestamp >= whole_from:
        return segment.max_timestamp_ms
    # Its newest record was deleted. Only the first segment reaches below the log start.
    newest = NO_TIMESTAMP_MS
    file, position = segment.file(), first.position
    for head in walk_heads(file, position, segment.size_bytes):
        time_ms = head.max_timestamp
        if head.base_offset < start and head.timestamp_type != LOG_APPEND_TIME:
            offsets, times = _rows_of(Batch(file.pread(head.size_bytes, position)))
            time_ms = int(times[offsets >= start].max(initial=NO_TIMESTAMP_MS))
        newest = max(newest, time_ms)
        position += head.size_bytes
    return newest


def _search_segment(segment: Segment, timestamp_ms: int, start: int) -> FoundRecord:
    near = max(segment.time_index.lookup(timestamp_ms).offset, start)
    position = segment.offset_index.lookup(near).position
    file = segment.file()
    for head in walk_heads(file, position, segment.size_bytes):
        if head.max_timestamp >= timestamp_ms and head.last_offset >= start:
            batch = head
            if not _is_plain(head):
                batch = Batch(file.pread(head.size_bytes, position))
            found = _search_batch(batch, timestamp_ms, start)
            if found.offset >= 0:
                return found
        position += head.size_bytes
    return _NOTHING


def _is_plain(batch: Batch) -> bool:
    """Return whether the head alone says which record it is."""
    return batch.timestamp_type == LOG_APPEND_TIME or (
        batch.record_count == 1 and batch.last_offset_delta == 0 and not batch.has_delete_horizon
    )


def _search_batch(batch: Batch, timestamp_ms: int, start: int) -> FoundRecord:
    if _is_plain(batch):
        offset = max(batch.base_offset, start)
        return FoundRecord(batch.max_timestamp, Offset(offset), batch.leader_epoch)
    offsets, times = _rows_of(batch)
    rows = ((times >= timestamp_ms) & (offsets >= start)).nonzero()[0]
    if not len(rows):
        return _NOTHING
    row = rows[0]
    return FoundRecord(int(times[row]), Offset(int(offsets[row])), batch.leader_epoch)


def _rows_of(batch: Batch) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
    """Return offset and time of each record."""
    # Late: it imports numba and pyarrow, which no other read needs.
    from headrace.records.decode import decode

    columns = decode(batch.data, columns=("offset", "timestamp"), verify_crc=False).columns
    times = columns.column("timestamp").cast("int64").to_numpy()
    return columns.column("offset").to_numpy(), times
