from dataclasses import dataclass, field

from headrace.log.compaction.segment_group import group_segments


@dataclass
class Index:
    size_bytes: int = 8


@dataclass
class Stretch:
    """A segment as grouping sees it."""

    base_offset: int
    size_bytes: int = 100
    offset_index: Index = field(default_factory=Index)
    time_index: Index = field(default_factory=Index)


def bases(segments: list[Stretch], *, end: int = 100, **bounds: int) -> list[list[int]]:
    limits = {"max_bytes": 1000, "max_index_bytes": 1000} | bounds
    groups = group_segments(segments, end=end, **limits)
    return [[segment.base_offset for segment in group] for group in groups]


def test_neighbours_share_a_segment_up_to_segment_bytes() -> None:
    segments = [Stretch(0), Stretch(10), Stretch(20), Stretch(30)]

    assert bases(segments, max_bytes=250) == [[0, 10], [20, 30]]


def test_neighbours_share_a_segment_up_to_the_size_of_its_offset_index() -> None:
    segments = [Stretch(0, offset_index=Index(80)), Stretch(10), Stretch(20)]

    assert bases(segments, max_index_bytes=88) == [[0, 10], [20]]


def test_neighbours_share_a_segment_up_to_the_size_of_its_time_index() -> None:
    segments = [Stretch(0), Stretch(10, time_index=Index(90)), Stretch(20)]

    assert bases(segments, max_index_bytes=98) == [[0, 10], [20]]


def test_offsets_of_a_group_fit_into_31_bits() -> None:
    segments = [Stretch(0), Stretch(10), Stretch(20)]

    assert bases(segments, end=2**31 + 1) == [[0, 10], [20]]
    assert bases(segments, end=2**31) == [[0, 10, 20]]


def test_a_segment_above_a_bound_stands_alone() -> None:
    segments = [Stretch(0), Stretch(10, size_bytes=5000), Stretch(20)]

    assert bases(segments) == [[0], [10], [20]]


def test_empty_segments_go_with_their_neighbours() -> None:
    segments = [Stretch(0), Stretch(10, size_bytes=0), Stretch(20)]

    assert bases(segments, max_bytes=200) == [[0, 10, 20]]


def test_no_segments_make_no_group() -> None:
    assert bases([]) == []
