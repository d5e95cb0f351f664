"""A partition's log at the borders of its arguments: zero ids, first offsets, fenced markers."""

import pytest

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import (
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequence,
    UnexpectedAppendOffset,
)
from testkit.sample.batch import sample_batch


def transactional(*values: bytes, epoch: int = 3) -> bytes:
    return sample_batch(
        *values, producer_id=7, producer_epoch=epoch, sequence=0, transactional=True
    )


def test_a_fenced_marker_is_refused_and_leaves_no_trace(log: PartitionLog) -> None:
    log.append(transactional(b"a"), 0)

    with pytest.raises(InvalidProducerEpoch):
        log.append_marker(7, 2, 0, commit=True, coordinator_epoch=0)

    assert log.log_end_offset == 1
    assert log.has_open_transaction(7, 3)


def test_a_marker_of_the_second_version_must_raise_the_epoch(log: PartitionLog) -> None:
    log.append(transactional(b"a"), 0)

    with pytest.raises(InvalidProducerEpoch):
        log.append_marker(7, 3, 0, commit=True, coordinator_epoch=0, transaction_version=2)

    marker = log.append_marker(7, 4, 0, commit=True, coordinator_epoch=0, transaction_version=2)
    assert (marker.base_offset, marker.last_offset) == (1, 1)


def test_the_producer_with_id_zero_is_checked_too(log: PartitionLog) -> None:
    first = sample_batch(b"a", producer_id=0, producer_epoch=0, sequence=0)
    log.append(first, 0)

    assert log.append(first, 0).duplicate
    with pytest.raises(OutOfOrderSequence):
        log.append(sample_batch(b"b", producer_id=0, producer_epoch=0, sequence=5), 0)


def test_a_plain_batch_is_appended_where_the_log_goes_on(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b"), 0)

    appended = log.append_plain(memoryview(sample_batch(b"c", b"d")), 0, alone=True)

    assert appended is not None
    assert (appended.base_offset, appended.last_offset) == (2, 3)
    assert log.high_watermark == 4


def test_batches_of_the_leader_follow_each_other(log: PartitionLog) -> None:
    two = sample_batch(b"a", b"b", leader_epoch=0)
    one = sample_batch(b"c", base_offset=2, leader_epoch=0)

    appended = log.append_as_follower(two + one)

    assert (appended.base_offset, appended.last_offset) == (0, 2)
    assert log.log_end_offset == 3


def test_batches_of_the_leader_may_have_gaps_but_not_overlap(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", b"b", leader_epoch=0))

    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(sample_batch(b"x", base_offset=1, leader_epoch=0))
    log.append_as_follower(
        sample_batch(b"c", base_offset=4, leader_epoch=0)
        + sample_batch(b"d", base_offset=5, leader_epoch=0)
    )
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(
            sample_batch(b"e", b"f", base_offset=6, leader_epoch=0)
            + sample_batch(b"g", base_offset=7, leader_epoch=0)
        )

    assert log.log_end_offset in (6, 8)


def test_only_whole_batches_of_a_cut_response_are_appended(log: PartitionLog) -> None:
    whole = sample_batch(b"a", leader_epoch=0)
    cut = sample_batch(b"b", base_offset=1, leader_epoch=0)[:-3]

    appended = log.append_as_follower(memoryview(whole + cut))

    assert appended.last_offset == 0
    assert log.read(0, 1 << 20, max_offset=1).read() == whole


def test_records_below_the_log_start_and_up_to_the_high_watermark_can_be_deleted(
    log: PartitionLog,
) -> None:
    log.append(sample_batch(b"a", b"b", b"c"), 0)
    log.set_high_watermark(2)

    assert log.delete_records(0) == 0
    assert log.delete_records(2) == 2
    assert log.delete_records(1) == 2
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(3)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(-2)
