"""Which segments retention drops."""

from dataclasses import dataclass

from headrace.log.partition.retention import DeletableSegments, deletable_segments
from headrace.model.topic_config import LogConfig


@dataclass
class Piece:
    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    modified_ms: int = 0


PIECES = [Piece(0, 10, 100, 1000), Piece(10, 20, 100, 2000), Piece(20, 30, 100, 3000)]


def count(config: LogConfig, *, now_ms: int = 3000, start: int = 0, watermark: int = 30) -> int:
    return deletable_segments(
        PIECES, config, log_start=start, high_watermark=watermark, now_ms=now_ms
    ).count


def test_without_limits_all_stay() -> None:
    assert count(LogConfig(retention_ms=-1, retention_bytes=-1)) == 0


def test_without_limits_no_reason_lets_one_go() -> None:
    for config in (
        LogConfig(retention_ms=-1, retention_bytes=-1),
        LogConfig(cleanup_policy=("compact",), retention_ms=0, retention_bytes=0),
    ):
        found = deletable_segments(PIECES, config, log_start=0, high_watermark=30, now_ms=9000)
        assert found == DeletableSegments(by_start=0, by_time=0, by_size=0)


def test_time_zero_is_a_time() -> None:
    pieces = [Piece(0, 10, 100, 0, modified_ms=2000), Piece(10, 20, 100, 2000)]
    found = deletable_segments(
        pieces, LogConfig(retention_ms=500), log_start=0, high_watermark=20, now_ms=2000
    )
    assert found.by_time == 1


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    assert count(LogConfig(retention_ms=1500), now_ms=3000) == 1
    assert count(LogConfig(retention_ms=1000), now_ms=3001) == 2


def test_a_segment_whose_records_have_no_time_is_as_old_as_its_file() -> None:
    pieces = [Piece(0, 10, 100, -1, modified_ms=2000), Piece(10, 20, 0, -1, modified_ms=2000)]

    def old_enough(now_ms: int) -> int:
        config = LogConfig(retention_ms=500)
        found = deletable_segments(pieces, config, log_start=0, high_watermark=20, now_ms=now_ms)
        return found.count

    assert (old_enough(2400), old_enough(2600)) == (0, 1)


def test_one_that_is_exactly_old_enough_stays() -> None:
    assert count(LogConfig(retention_ms=2000), now_ms=3000) == 0


def test_the_active_segment_may_go_as_well() -> None:
    assert count(LogConfig(retention_ms=0), now_ms=9000) == 3


def test_segments_go_while_the_rest_is_still_large_enough() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=150)
    assert count(config) == 1
    assert count(LogConfig(retention_ms=-1, retention_bytes=200)) == 1
    assert count(LogConfig(retention_ms=-1, retention_bytes=201)) == 0
    assert count(LogConfig(retention_ms=-1, retention_bytes=300)) == 0
    assert count(LogConfig(retention_ms=-1, retention_bytes=0)) == 3


def test_nothing_above_the_high_watermark_goes() -> None:
    assert count(LogConfig(retention_ms=0), now_ms=9000, watermark=19) == 1


def test_what_lies_below_the_log_start_goes_whatever_the_policy() -> None:
    config = LogConfig(cleanup_policy=("compact",))
    assert count(config, start=20) == 2
    assert count(config, start=19) == 1


def test_a_compacted_topic_does_not_delete_by_age_or_size() -> None:
    config = LogConfig(cleanup_policy=("compact",), retention_ms=0, retention_bytes=0)
    assert count(config, now_ms=9000) == 0


def test_an_empty_active_segment_stays() -> None:
    pieces = [*PIECES[:2], Piece(20, 20, 0, -1)]
    found = deletable_segments(
        pieces, LogConfig(retention_ms=0), log_start=0, high_watermark=20, now_ms=9000
    )
    assert found.count == 2


def test_the_reason_is_the_one_that_reaches_furthest() -> None:
    found = deletable_segments(
        PIECES,
        LogConfig(retention_ms=1500, retention_bytes=100),
        log_start=0,
        high_watermark=30,
        now_ms=3000,
    )
    assert (found.by_time, found.by_size, found.reason) == (1, 2, "size")
