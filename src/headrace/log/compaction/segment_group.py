"""Which neighbouring segments compaction merges into one, so that it does not leave small ones."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

_INT_MAX = 2**31 - 1


class SizedIndex(Protocol):
    @property
    def size_bytes(self) -> int: ...


class MergeableSegment(Protocol):
    """What grouping reads of a segment."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def offset_index(self) -> SizedIndex: ...
    @property
    def time_index(self) -> SizedIndex: ...


_Segment = TypeVar("_Segment", bound=MergeableSegment)


def group_segments(
    segments: Sequence[_Segment], *, end: int, max_bytes: int, max_index_bytes: int
) -> list[tuple[_Segment, ...]]:
    """Group neighbouring segments so that each group fits one segment even if nothing is dropped.

    A group's log fits segment.bytes, each of its indexes segment.index.bytes, and its offsets lie
    within what an index entry holds, 31 bits over the base. A segment above a bound stands alone.

    Args:
        end: exclusive; where the offsets of the last segment end.
    """
    groups: list[tuple[_Segment, ...]] = []
    group: list[_Segment] = []
    sizes: tuple[int, ...] = (0, 0, 0)
    for segment, following in zip_longest(segments, segments[1:]):
        segment_end = end if following is None else following.base_offset
        own = _sizes(segment)
        merged = tuple(a + b for a, b in zip(sizes, own, strict=True))
        fits = (
            bool(group)
            and merged[0] <= max_bytes
            and max(merged[1:]) <= max_index_bytes
            and segment_end - 1 - group[0].base_offset <= _INT_MAX
        )
        if group and not fits:
            groups.append(tuple(group))
            group, merged = [], own
        group.append(segment)
        sizes = merged
    if group:
        groups.append(tuple(group))
    return groups


def _sizes(segment: MergeableSegment) -> tuple[int, ...]:
    return segment.size_bytes, segment.offset_index.size_bytes, segment.time_index.size_bytes
