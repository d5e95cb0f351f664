from dataclasses import dataclass

import pytest

from headrace.log.compaction.cleanable_range import cleanable_range, first_dirty_offset
from headrace.model.topic_config import LogConfig

NOW_MS = 1_000_000


@dataclass
class Stretch:
    """A segment as compaction's choice sees it."""

    base_offset: int
    size_bytes: int = 100
    first_timestamp_ms: int = 1
    max_timestamp_ms: int = 1


SEGMENTS = [Stretch(0), Stretch(10), Stretch(20), Stretch(30)]


def choose(segments=SEGMENTS, *, first_dirty: int = 0, last_stable: int = 100, **config):
    return cleanable_range(
        segments,
        LogConfig(cleanup_policy=("compact",), **config),
        first_dirty=first_dirty,
        last_stable=last_stable,
        now_ms=NOW_MS,
    )


def test_the_active_segment_is_never_touched() -> None:
    assert choose().end == 30


def test_ends_before_the_segment_that_holds_the_last_stable_offset() -> None:
    assert choose(last_stable=25).end == 20


def test_a_last_stable_offset_at_a_segment_boundary_leaves_the_one_before() -> None:
    assert choose(last_stable=20).end == 20


def test_ends_before_a_segment_with_a_record_that_is_too_young() -> None:
    segments = [Stretch(0), Stretch(10, max_timestamp_ms=NOW_MS - 5), Stretch(20), Stretch(30)]

    assert choose(segments, min_compaction_lag_ms=10).end == 10


def test_a_young_record_in_the_clean_part_does_not_hold_it_up() -> None:
    segments = [Stretch(0, max_timestamp_ms=NOW_MS), Stretch(10), Stretch(20), Stretch(30)]

    assert choose(segments, first_dirty=10, min_compaction_lag_ms=10).end == 30


def test_nothing_is_dirty_when_everything_below_the_end_is_clean() -> None:
    chosen = choose(first_dirty=30)

    assert (chosen.dirty_bytes, chosen.end) == (0, 30)
    assert not chosen.worthwhile(LogConfig(min_cleanable_dirty_ratio=0.0))


def test_counts_dirty_and_clean_bytes() -> None:
    chosen = choose(first_dirty=10)

    assert (chosen.clean_bytes, chosen.dirty_bytes) == (100, 200)
    assert chosen.dirty_ratio == pytest.approx(2 / 3)


def test_a_segment_that_is_partly_clean_counts_as_dirty() -> None:
    assert choose(first_dirty=15).dirty_bytes == 200


@pytest.mark.parametrize(("ratio", "worthwhile"), [(0.5, True), (0.7, False)])
def test_is_worthwhile_above_the_dirty_ratio(ratio: float, worthwhile: bool) -> None:
    chosen = choose(first_dirty=10)

    assert chosen.worthwhile(LogConfig(min_cleanable_dirty_ratio=ratio)) is worthwhile


def test_is_overdue_when_a_dirty_record_is_older_than_max_compaction_lag() -> None:
    segments = [Stretch(0, first_timestamp_ms=NOW_MS - 60), Stretch(10), Stretch(20)]
    config = LogConfig(max_compaction_lag_ms=50, min_cleanable_dirty_ratio=1.0)

    assert choose(segments, max_compaction_lag_ms=50).worthwhile(config)


def test_an_old_record_in_the_clean_part_is_not_overdue() -> None:
    segments = [
        Stretch(0, first_timestamp_ms=NOW_MS - 60),
        Stretch(10, first_timestamp_ms=NOW_MS),
        Stretch(20),
    ]

    assert not choose(segments, first_dirty=10, max_compaction_lag_ms=50).overdue


def test_a_record_without_a_time_is_never_overdue() -> None:
    segments = [Stretch(0, first_timestamp_ms=-1), Stretch(10)]

    assert not choose(segments, max_compaction_lag_ms=50).overdue


@pytest.mark.parametrize(
    ("checkpoint", "first_dirty"), [(None, 5), (20, 20), (5, 5), (50, 50), (4, 5), (51, 5)]
)
def test_a_checkpoint_outside_the_log_is_not_believed(
    checkpoint: int | None, first_dirty: int
) -> None:
    assert first_dirty_offset(checkpoint, log_start=5, log_end=50) == first_dirty
