"""Rebuilding the indexes of a segment from its batches."""

import structlog

from headrace.log.segment.batch_scan import walk_heads
from headrace.log.segment.segment import Segment
from headrace.model.error import CorruptIndex

_log = structlog.get_logger(__name__)


def rebuild_if_broken(segment: Segment, interval_bytes: int) -> bool:
    """Rebuild offset and time index of a cold segment when either is corrupt; return whether so."""
    try:
        segment.offset_index.check()
        segment.time_index.check()
    except CorruptIndex as error:
        _log.warning("index_rebuilt", segment=str(segment.path), reason=str(error))
        rebuild_indexes(segment, interval_bytes)
        return True
    return False


def rebuild_indexes(segment: Segment, interval_bytes: int) -> None:
    """Rebuild offset and time index from the heads of all batches. Not synced.

    The transaction index is left alone: it needs the producers as they were at the segment's start,
    which only a replay of the log before it can tell.
    """
    end_offset = segment.end_offset
    segment.reset_indexes()
    position = 0
    for head in walk_heads(segment.file(), 0, segment.size_bytes):
        size_bytes = head.size_bytes
        segment.note(
            head.base_offset,
            head.last_offset,
            head.max_timestamp,
            position,
            size_bytes,
            interval_bytes,
        )
        position += size_bytes
    segment.close_indexes()
    segment.end_offset = max(end_offset, segment.end_offset)
