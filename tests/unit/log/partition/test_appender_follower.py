"""What a log takes from its leader."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import (
    CorruptBatch,
    DiskFull,
    UnexpectedAppendOffset,
)
from headrace.model.ids import TopicPartition
from headrace.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    build_head,
)
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill, offsets

OpenLog = Callable[..., PartitionLog]


def test_a_follower_keeps_offsets_and_epochs(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", base_offset=5, leader_epoch=2))
    log.append_as_follower(sample_batch(b"b", base_offset=9, leader_epoch=3))
    log.set_high_watermark(10)

    assert log.log_end_offset == 10
    assert offsets(log, 0) == [5, 9]
    # Its first records may be compacted away: an epoch begins where the one before ends for sure.
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 0), (3, 6)]


def test_batches_of_one_answer_begin_their_epochs_each_after_the_one_before(
    log: PartitionLog,
) -> None:
    """Another replica's records from 2 to 4 are not of epoch 1: else it would keep them."""
    before = sample_batch(b"a", b"b", leader_epoch=1)
    log.append_as_follower(before + sample_batch(b"c", base_offset=5, leader_epoch=3))

    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (3, 2)]
    assert log.epochs.end_offset(1, log.log_end_offset) == (1, 2)


def test_a_follower_leaves_out_a_cut_off_batch(log: PartitionLog) -> None:
    two = sample_batch(b"a", leader_epoch=0) + sample_batch(b"b", base_offset=1, leader_epoch=0)
    log.append_as_follower(two[:-3])
    assert log.log_end_offset == 1
    assert log.append_as_follower(two[-20:]).size_bytes == 0


def test_an_epoch_keeps_its_start_when_there_is_no_room_for_the_next_one(
    log: PartitionLog, disk: CrashDisk
) -> None:
    """Else the follower would report an older epoch, and be asked to cut what is committed."""
    for offset in range(3):
        epoch = 2 if offset else 1
        log.append_as_follower(sample_batch(b"a", base_offset=offset, leader_epoch=epoch))
    copied = sample_batch(b"b", base_offset=3, leader_epoch=2)
    both = copied + sample_batch(b"c", base_offset=4, leader_epoch=3)
    full = disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", times=None))
    with pytest.raises(DiskFull):
        log.append_as_follower(both)
    disk.faults.remove(full)

    log.append_as_follower(copied)

    assert log.epochs.entries == ((1, 0), (2, 1))
    log.append_as_follower(both[len(copied) :])
    assert log.epochs.entries == ((1, 0), (2, 1), (3, 4))


def test_a_follower_refuses_what_it_has(log: PartitionLog) -> None:
    fill(log, 3)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(sample_batch(b"a", base_offset=2, leader_epoch=0))


def test_a_follower_knows_the_producers_of_what_it_copies(log: PartitionLog) -> None:
    batch = sample_batch(b"a", leader_epoch=0, producer_id=1, producer_epoch=0, sequence=0)

    log.append_as_follower(batch)

    assert log.append(batch, 0).duplicate


def test_a_follower_copies_a_batch_from_before_there_were_epochs(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=-1))

    assert log.log_end_offset == 1
    assert log.epochs.entries == ()


def test_a_follower_starts_a_segment_at_the_first_batch_behind_a_jump(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))
    far = 2**31 + 10

    log.append_as_follower(
        sample_batch(b"b", base_offset=far, leader_epoch=0)
        + sample_batch(b"c", base_offset=far + 1, leader_epoch=0)
    )

    assert [segment.base_offset for segment in log.segments] == [0, far]


# -- what a leader sends that is unusual -----------------------------------------------------------


def test_a_follower_writes_no_marker_that_it_cannot_read(open_log: OpenLog) -> None:
    log = open_log()
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))
    rows = b"\x02\x00"
    head = build_head(
        rows,
        base_offset=1,
        leader_epoch=0,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        last_offset_delta=0,
        record_count=1,
        producer_id=7,
        producer_epoch=0,
    )
    with pytest.raises(CorruptBatch):
        log.append_as_follower(head + rows)
    log.sync()

    assert log.log_end_offset == open_log().log_end_offset == 1


def control(producer_id: int, rows: bytes) -> bytes:
    head = build_head(
        rows,
        base_offset=1,
        leader_epoch=0,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        last_offset_delta=0,
        record_count=1 if rows else 0,
        producer_id=producer_id,
        producer_epoch=0,
    )
    return head + rows


def control_rows(kind: int, value: bytes) -> bytes:
    """One control record; `kind` is ABORT 0, COMMIT 1, or another that nothing here reads."""
    key = bytes([0, 0, 0, kind])
    body = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    return bytes([2 * len(body)]) + body


@pytest.mark.parametrize("producer_id", [0, 7])
def test_a_follower_writes_no_marker_without_the_coordinators_epoch(
    log: PartitionLog, producer_id: int
) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))

    with pytest.raises(CorruptBatch):
        log.append_as_follower(control(producer_id, control_rows(1, b"\0")))

    assert log.log_end_offset == 1


@pytest.mark.parametrize(
    ("producer_id", "rows"),
    [(7, b""), (7, control_rows(2, b"\0")), (-1, control_rows(1, b"\0"))],
    ids=["compacted away", "of another kind", "of no producer"],
)
def test_a_follower_copies_a_control_batch_that_ends_no_transaction(
    log: PartitionLog, producer_id: int, rows: bytes
) -> None:
    log.append_as_follower(sample_batch(b"a", leader_epoch=0))

    log.append_as_follower(control(producer_id, rows))

    assert log.log_end_offset == 2


@pytest.mark.parametrize("loss", [Loss.EVERYTHING, Loss.NOTHING])
def test_a_jump_of_offsets_that_no_index_can_hold_survives_a_crash(
    loss: Loss,
) -> None:
    disk = CrashDisk()

    def opened() -> LogDirectory:
        return LogDirectory.open(Path("/data"), filesystem=disk, background=False)

    clicks = TopicPartition("clicks", 0)
    log = opened().create(clicks)
    far = 2**31 + 10
    for base in (0, far, far + 1, 3 * far):
        log.append_as_follower(sample_batch(b"v", base_offset=base, leader_epoch=0))
    log.sync()
    assert [segment.base_offset for segment in log.segments] == [0, far, 3 * far]

    disk.crash(Random(1), loss=loss, chaos=False)

    log = opened().get(clicks)
    log.set_high_watermark(log.log_end_offset)
    assert log.log_end_offset == 3 * far + 1
    assert offsets(log, 0) == [0]
    assert offsets(log, far) == [far, far + 1]
