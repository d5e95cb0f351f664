"""Which part of a log compaction may touch now, and whether it is worth it: a pure function.

    log start        first dirty                    end                 log end
        | compacted before | not yet compacted        | too young, unstable or active |
        '--------------------- walked and rewritten --'

Rule 1: only whole segments below `end` are touched, never the active one.
Rule 2: never past the last stable offset: whether an open transaction's records count is not known.
Rule 3: a segment with a record younger than min.compaction.lag.ms ends the range.
Rule 4: it is worth it when the dirty share of the bytes is above min.cleanable.dirty.ratio, or when
a dirty record is older than max.compaction.lag.ms.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from headrace.model.offset import Offset
from headrace.model.topic_config import LogConfig


class CleanableSegment(Protocol):
    """What is read of a segment. A timestamp may cost a disk read, so it is read last."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def first_timestamp_ms(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanableRange:
    """What one round of compaction would work on.

    Attributes:
        first_dirty: everything below was compacted before.
        end: exclusive; the base offset of the first segment that is left alone.
        overdue: a dirty record is older than max.compaction.lag.ms.
    """

    first_dirty: Offset
    end: Offset
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def worthwhile(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (
            self.overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio
        )


def first_dirty_offset(checkpoint: int | None, *, log_start: int, log_end: int) -> Offset:
    """Return where compaction left off; the log start when the checkpoint lies outside the log.

    That happens when DeleteRecords or retention passed it, or when the log was cut behind it.
    """
    if checkpoint is None or not log_start <= checkpoint <= log_end:
        return Offset(log_start)
    return Offset(checkpoint)


def cleanable_range(
    segments: Sequence[CleanableSegment],
    config: LogConfig,
    *,
    first_dirty: int,
    last_stable: int,
    now_ms: int,
) -> CleanableRange:
    """Return the range compaction may work on now; `worthwhile` says whether it should.

    `segments` are all of the log's, the active one last.
    """
    cut = last_stable
    if segments:
        cut = min(cut, segments[-1].base_offset)
    end = _segment_start(segments, cut)
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        for segment in _between(segments, first_dirty, end):
            if segment.max_timestamp_ms > youngest_ms:
                end = segment.base_offset
                break
    dirty = list(_between(segments, first_dirty, end))
    clean_bytes = sum(
        segment.size_bytes
        for segment, segment_end in _with_ends(segments)
        if segment_end <= first_dirty
    )
    oldest_ms = now_ms - config.max_compaction_lag_ms
    return CleanableRange(
        first_dirty=Offset(first_dirty),
        end=Offset(max(end, first_dirty)),
        clean_bytes=clean_bytes,
        dirty_bytes=sum(segment.size_bytes for segment in dirty),
        overdue=oldest_ms > 0 and any(0 < s.first_timestamp_ms < oldest_ms for s in dirty),
    )


def _with_ends(segments: Sequence[CleanableSegment]) -> Iterator[tuple[CleanableSegment, int]]:
    """Yield each segment but the active one, with the offset at which the next one starts."""
    for segment, following in pairwise(segments):
        yield segment, following.base_offset


def _between(
    segments: Sequence[CleanableSegment], first_dirty: int, end: int
) -> Iterator[CleanableSegment]:
    for segment, segment_end in _with_ends(segments):
        if segment.base_offset < end and segment_end > first_dirty:
            yield segment


def _segment_start(segments: Sequence[CleanableSegment], offset: int) -> int:
    """Return the base offset of the segment that holds `offset`."""
    start = 0
    for segment in segments:
        if segment.base_offset > offset:
            break
        start = segment.base_offset
    return start
