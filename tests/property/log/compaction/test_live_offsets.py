"""A range of offsets lacks live records only if the map names none of them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.compaction.live_offsets import LiveOffsets


@settings(deadline=None)
@given(
    st.sets(st.integers(0, 3000)),
    st.integers(0, 1000),
    st.integers(0, 2000),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 100)), min_size=1),
)
def test_no_range_with_a_live_offset_is_lost(
    named: set[int], start: int, size: int, ranges: list[tuple[int, int]]
) -> None:
    end = start + size
    offsets = np.array(sorted(each for each in named if each >= start), dtype=np.int64)
    offset_map: Any = SimpleNamespace(newest_offsets=lambda: iter([offsets[:3], offsets[3:]]))
    live = LiveOffsets(offset_map, start, end)
    first = np.array([each for each, _ in ranges], dtype=np.int64)
    last = first + np.array([count for _, count in ranges], dtype=np.int64)
    for lacks, low, high in zip(live.lacks(first, last).tolist(), first, last, strict=True):
        if lacks:
            assert start <= low <= high < end
            assert not any(low <= each <= high for each in offsets)


def test_a_range_far_from_live_offsets_lacks_them() -> None:
    offset_map: Any = SimpleNamespace(newest_offsets=lambda: iter([np.array([5, 999])]))
    live = LiveOffsets(offset_map, 0, 1000)
    found = live.lacks(np.array([100, 0, 980, 100]), np.array([900, 99, 999, 1000]))
    assert found.tolist() == [True, False, False, False]
