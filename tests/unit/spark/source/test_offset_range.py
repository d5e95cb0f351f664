"""Ranges of offsets, split into tasks."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.ids import TopicPartition
from headrace.spark.source.offset_range import OffsetRange, split_ranges

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_each_partition_is_one_task_by_default() -> None:
    ranges = [OffsetRange(A, 0, 1_000_000), OffsetRange(B, 5, 6)]

    assert split_ranges(ranges) == ranges


def test_empty_ranges_are_no_tasks() -> None:
    assert split_ranges([OffsetRange(A, 5, 5), OffsetRange(B, 7, 5)]) == []


def test_only_big_ranges_are_split() -> None:
    found = split_ranges([OffsetRange(A, 0, 990), OffsetRange(B, 0, 10)], min_parts=4)

    assert [each.partition for each in found] == [A, A, A, B]
    assert [each.size for each in found] == [330, 330, 330, 10]


def test_enough_partitions_are_left_alone() -> None:
    ranges = [OffsetRange(A, 0, 100), OffsetRange(B, 0, 1)]

    assert split_ranges(ranges, min_parts=2) == ranges


def test_no_task_has_more_than_the_most() -> None:
    found = split_ranges([OffsetRange(A, 0, 10)], max_size=4)

    assert [(each.start, each.end) for each in found] == [(0, 3), (3, 6), (6, 10)]


SIZES = st.lists(st.integers(0, 10**12), min_size=1, max_size=8)


@settings(deadline=None)
@given(
    sizes=SIZES,
    min_parts=st.none() | st.integers(1, 50),
    max_size=st.none() | st.integers(10**10, 10**13),
)
def test_splitting_keeps_every_offset_once_and_in_order(
    sizes: list[int], min_parts: int | None, max_size: int | None
) -> None:
    whole = [OffsetRange(TopicPartition("t", i), 7, 7 + size) for i, size in enumerate(sizes)]

    found = split_ranges(whole, min_parts, max_size)

    for each in whole:
        parts = [part for part in found if part.partition == each.partition]
        assert sum(part.size for part in parts) == each.size
        assert all(before.end == after.start for before, after in pairwise(parts))
        assert all(part.size > 0 for part in parts)
        assert max_size is None or all(part.size <= max_size for part in parts)
