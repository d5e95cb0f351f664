"""Ranges of offsets, and how they are split into tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.model.ids import TopicPartition

# A task costs Spark about a millisecond and memory on the driver: more parts are a mistyped option.
_MOST_PARTS = 100_000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `start` to before `end`. Compaction and transactions may leave fewer records."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def split_ranges(
    ranges: Iterable[OffsetRange], min_parts: int | None = None, max_size: int | None = None
) -> list[OffsetRange]:
    """Return one range per task: each range that is not empty, or its parts if it is large.

    Args:
        min_parts: about how many tasks there must be. Large ranges are split in proportion to their
            size; a range that is small beside the others stays whole.
        max_size: the most offsets of one task.

    >>> clicks = TopicPartition("clicks", 0)
    >>> [(each.start, each.end) for each in split_ranges([OffsetRange(clicks, 0, 10)], min_parts=3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    whole = [each for each in ranges if each.size > 0]
    parts = [1 if max_size is None else -(-each.size // max_size) for each in whole]
    if min_parts is not None and sum(parts) < min_parts:
        parts = [max(pair) for pair in zip(parts, _shares(whole, min_parts), strict=True)]
    return [piece for each, count in zip(whole, parts, strict=True) for piece in _cut(each, count)]


def _shares(ranges: Sequence[OffsetRange], min_parts: int) -> list[int]:
    """Return how many of `min_parts` each range gets, in proportion to its size."""
    total = sum(each.size for each in ranges)
    small = [round(each.size / total * min_parts) <= 1 for each in ranges]
    big_total = sum(each.size for each, is_small in zip(ranges, small, strict=True) if not is_small)
    left = max(min_parts - sum(small), 1)
    return [
        1 if is_small else max(round(each.size / big_total * left), 1)
        for each, is_small in zip(ranges, small, strict=True)
    ]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = min(parts, whole.size, _MOST_PARTS)
    edges = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(edges)]
