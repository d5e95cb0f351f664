"""Reading by offset, by time and by leader epoch."""

import pytest

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import (
    OffsetOutOfRange,
)
from headrace.records.batch import Batch, iter_batches
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch
from testkit.sample.filled_log import fill, offsets

# -- reading ---------------------------------------------------------------------------------------


def test_every_offset_is_found_across_segments(log: PartitionLog) -> None:
    for _ in range(60):
        log.append(sample_batch(b"a", b"b", b"c"), 0)
    log.set_high_watermark(180)
    assert len(log.segments) == 3

    for offset in range(180):
        assert offsets(log, offset)[0] == offset // 3 * 3


def test_a_slice_starts_with_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b", b"c"), 0)
    log.set_high_watermark(3)

    assert log.read(2, 1000).first_offset == 0


def test_a_slice_ends_before_the_high_watermark(log: PartitionLog) -> None:
    fill(log, 5)
    log.set_high_watermark(3)

    assert offsets(log, 0) == [0, 1, 2]
    assert offsets(log, 0, max_offset=5) == [0, 1, 2, 3, 4]


def test_a_batch_that_reaches_to_the_bound_is_left_out(log: PartitionLog) -> None:
    log.append(sample_batch(b"a"), 0)
    log.append(sample_batch(b"b", b"c"), 0)
    log.set_high_watermark(3)

    assert offsets(log, 0, max_offset=2) == [0]
    assert log.read(1, 1000, max_offset=2).size == 0


def test_a_slice_keeps_to_its_byte_budget(log: PartitionLog) -> None:
    fill(log, 5)
    size = log.read(0, 1 << 20).size // 5

    assert log.read(0, size * 2 + 10).size == size * 2 + 10


def test_a_first_batch_above_the_budget_comes_whole_or_not_at_all(log: PartitionLog) -> None:
    fill(log, 2)

    assert offsets(log, 0) == [0, 1]
    assert Batch(log.read(0, 1).read()).base_offset == 0
    assert log.read(0, 1, at_least_one=False).size == 0


def test_at_the_end_there_is_nothing(log: PartitionLog) -> None:
    fill(log, 2)
    assert log.read(2, 1000).size == 0
    assert log.read(2, 1000).read() == b""


@pytest.mark.parametrize("offset", [-1, 3])
def test_an_offset_outside_the_log_is_out_of_range(log: PartitionLog, offset: int) -> None:
    fill(log, 2)
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, 1000)


def test_a_slice_outlives_the_deletion_of_its_segment(
    log: PartitionLog, clock: ManualClock
) -> None:
    fill(log, 3)
    piece = log.read(0, 1 << 20)
    log.delete_records(3)
    log.apply_retention()
    clock.advance(log.config.file_delete_delay_ms)
    log.remove_deleted()

    assert len(list(iter_batches(piece.read()))) == 3


# -- time ------------------------------------------------------------------------------------------


def test_the_first_record_at_or_after_a_time(log: PartitionLog) -> None:
    for number in range(100):
        log.append(sample_batch(b"a" * 30, timestamp_ms=SAMPLE_TIME_MS + number * 10), 4)
    log.set_high_watermark(100)

    found = log.offset_for_timestamp(SAMPLE_TIME_MS + 555)

    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (56, SAMPLE_TIME_MS + 560, 4)


def test_the_record_inside_a_batch_is_found(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b", b"c", b"d", step_ms=100), 0)
    log.set_high_watermark(4)

    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 150).offset == 2


def test_no_record_is_new_enough(log: PartitionLog) -> None:
    fill(log, 3)
    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 1).offset == -1


def test_a_record_past_the_bound_is_not_shown(log: PartitionLog) -> None:
    fill(log, 3)
    assert log.offset_for_timestamp(SAMPLE_TIME_MS, max_offset=0).offset == -1


def test_times_that_run_backwards(log: PartitionLog) -> None:
    for ms in (50, 10, 90, 20):
        log.append(sample_batch(b"a", timestamp_ms=SAMPLE_TIME_MS + ms), 0)
    log.set_high_watermark(4)

    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 20).offset == 0
    assert log.offset_for_timestamp(SAMPLE_TIME_MS + 60).offset == 2
    assert log.offset_of_max_timestamp().offset == 2


def test_an_empty_log_has_no_newest_record(log: PartitionLog) -> None:
    assert log.offset_of_max_timestamp().offset == -1


# -- leader epochs ---------------------------------------------------------------------------------


def test_where_a_leader_epoch_ends(log: PartitionLog) -> None:
    for epoch in (1, 1, 3):
        log.append(sample_batch(b"a"), epoch)

    assert tuple(log.epoch_end_offset(1)) == (1, 2)
    assert tuple(log.epoch_end_offset(2)) == (1, 2)
    assert tuple(log.epoch_end_offset(3)) == (3, 3)
    assert log.latest_epoch == 3
