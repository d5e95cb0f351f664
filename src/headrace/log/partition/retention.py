"""Which segments a log no longer keeps: pure functions over the oldest segments first.

Rule 1: only a prefix of the log goes; the first segment that must stay ends the search.
Rule 2: nothing at or above the high watermark goes: followers and readers have yet to see it.
Rule 3: an empty active segment never goes.
Rule 4: ages are by record timestamp, not by file time: a restored copy keeps its age. Only a
segment whose records have no time at all is as old as its file.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.model.topic_config import LogConfig


class RetainedSegment(Protocol):
    """What is read of a segment. `max_timestamp_ms` may cost a disk read, so it is read last."""

    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def modified_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class DeletableSegments:
    """How many of the oldest segments may go, by the reason that lets them."""

    by_start: int = 0
    by_time: int = 0
    by_size: int = 0

    @property
    def count(self) -> int:
        return max(self.by_start, self.by_time, self.by_size)

    @property
    def reason(self) -> str:
        """The reason that reaches furthest, for the log line."""
        reasons = {"start": self.by_start, "time": self.by_time, "size": self.by_size}
        return max(reasons, key=lambda name: reasons[name])


def deletable_segments(
    segments: Sequence[RetainedSegment],
    config: LogConfig,
    *,
    log_start: int,
    high_watermark: int,
    now_ms: int,
) -> DeletableSegments:
    """Return how many of the oldest segments this log may drop now.

    The active segment, the last one, counts too: when it may go, the log rolls first.
    """
    by_start = _prefix(segments, high_watermark, _below(log_start))
    if not config.deleted:
        return DeletableSegments(by_start=by_start)
    by_time = 0
    if config.retention_ms >= 0:
        by_time = _prefix(segments, high_watermark, _older(now_ms - config.retention_ms))
    by_size = 0
    if config.retention_bytes >= 0:
        spare = sum(segment.size_bytes for segment in segments) - config.retention_bytes
        by_size = _prefix(segments, high_watermark, _fits(spare))
    return DeletableSegments(by_start=by_start, by_time=by_time, by_size=by_size)


def _prefix(
    segments: Sequence[RetainedSegment],
    high_watermark: int,
    may_go: Callable[[RetainedSegment], bool],
) -> int:
    count = 0
    for segment in _candidates(segments, high_watermark):
        if not may_go(segment):
            break
        count += 1
    return count


def _candidates(
    segments: Sequence[RetainedSegment], high_watermark: int
) -> Iterator[RetainedSegment]:
    last = len(segments) - 1
    for number, segment in enumerate(segments):
        empty_active = number == last and segment.size_bytes == 0
        # A compacted segment may end before the next one starts: the next base is its true end.
        end = segment.end_offset if number == last else segments[number + 1].base_offset
        if end > high_watermark or empty_active:
            return
        yield segment


def _below(log_start: int) -> Callable[[RetainedSegment], bool]:
    return lambda segment: segment.end_offset <= log_start


def _older(than_ms: int) -> Callable[[RetainedSegment], bool]:
    def may_go(segment: RetainedSegment) -> bool:
        newest_ms = segment.max_timestamp_ms
        return (newest_ms if newest_ms >= 0 else segment.modified_ms) < than_ms

    return may_go


def _fits(spare: int) -> Callable[[RetainedSegment], bool]:
    """Let a segment go while the log stays at least retention.bytes large without it."""
    left = spare

    def may_go(segment: RetainedSegment) -> bool:
        nonlocal left
        left -= segment.size_bytes
        return left >= 0

    return may_go
