"""DeleteRecords, retention, and the exchange of compacted segments."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.partition.log_slice import LogSlice
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_name import CLEANED, DELETED
from headrace.model.clock import ManualClock
from headrace.model.error import (
    DiskFull,
    InvalidArgument,
    OffsetOutOfRange,
    StorageError,
)
from headrace.model.offset import Offset
from headrace.records.batch import iter_batches
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault
from testkit.sample.filled_log import fill, offsets

OpenLog = Callable[..., PartitionLog]


def test_deleted_records_are_out_of_range(log: PartitionLog) -> None:
    fill(log, 10)

    assert log.delete_records(4) == 4

    with pytest.raises(OffsetOutOfRange):
        log.read(3, 1000)
    assert offsets(log, 4)[0] == 4


def test_minus_one_deletes_up_to_the_high_watermark(log: PartitionLog) -> None:
    fill(log, 10)
    log.set_high_watermark(7)
    assert log.delete_records(-1) == 7


@pytest.mark.parametrize("before", [-2, 8])
def test_deleting_past_the_high_watermark_is_refused(log: PartitionLog, before: int) -> None:
    fill(log, 10)
    log.set_high_watermark(7)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(before)


def test_what_producers_did_below_a_new_start_is_durable_first(log: PartitionLog) -> None:
    fill(log, 10)
    log.delete_records(4)
    assert log.recovery_point == 10


def test_a_new_start_in_what_is_durable_needs_no_flush(log: PartitionLog) -> None:
    fill(log, 3)
    log.flush()
    fill(log, 3)
    log.delete_records(3)
    assert log.recovery_point == 3


def test_a_snapshot_that_is_owed_below_a_new_start_is_written_first(log: PartitionLog) -> None:
    fill(log, 3)
    log.flush()
    log.roll()
    fill(log, 3)
    log.delete_records(2)
    assert log.recovery_point == 3
    log.delete_records(3)
    assert log.recovery_point == 6


def test_a_start_that_cannot_be_saved_has_not_moved(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 10)
    changes = log.storage.changes

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log.storage.save_offsets = full
    with pytest.raises(DiskFull):
        log.delete_records(4)

    assert log.log_start_offset == 0
    assert log.storage.changes == changes


def test_a_start_that_moves_is_saved_and_counted_once(log: PartitionLog) -> None:
    saved: list[int] = []
    log.storage.save_offsets = lambda: saved.append(log.log_start_offset)
    fill(log, 10)
    log.roll()
    changes = log.storage.changes

    log.delete_records(10)
    assert (saved, log.storage.changes) == ([10], changes + 1)
    assert log.epochs.entries == ((0, 0),)

    log.delete_records(10)
    log.delete_records(3)
    assert log.apply_retention() == 1
    assert (saved, log.storage.changes) == ([10], changes + 1)


def test_retention_by_time_drops_old_segments_and_moves_the_start(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(segment_bytes=1024, retention_ms=1000)
    fill(log, 30)
    clock.advance(1001)
    fill(log, 1, timestamp_ms=clock.wall_ms())

    dropped = log.apply_retention()

    assert dropped > 0
    assert log.log_start_offset == log.segments[0].base_offset > 0


def test_when_everything_is_old_an_empty_segment_is_left(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(retention_ms=1000)
    fill(log, 5)
    clock.advance(5000)

    assert log.apply_retention() == 1

    assert log.log_start_offset == log.log_end_offset == 5
    assert [segment.size_bytes for segment in log.segments] == [0]


def test_dropped_files_wait_for_the_delay(
    open_log: OpenLog, clock: ManualClock, disk: CrashDisk, directory: Path
) -> None:
    log = open_log(segment_bytes=1024, retention_bytes=0, file_delete_delay_ms=500)
    fill(log, 30)
    log.apply_retention()
    assert any(name.endswith(DELETED) for name in disk.list(directory))
    assert log.remove_deleted() == 0

    clock.advance(500)

    assert log.remove_deleted() > 0
    assert not any(name.endswith(DELETED) for name in disk.list(directory))


# -- replacing segments ----------------------------------------------------------------------------


def rewrite(log: PartitionLog, source: Segment, *offsets: int) -> Segment:
    """What compaction would leave of a segment: the batches that start at these offsets."""
    new = Segment(log.storage, log.path, source.base_offset, new=True, stage=CLEANED)
    new.create()
    for batch in iter_batches(source.file().pread(source.size_bytes, 0)):
        if batch.base_offset in offsets:
            placed = PlacedBatch(batch, batch.base_offset, batch.last_offset, batch.max_timestamp)
            new.append([batch.data], [placed], 0)
    new.end_offset = source.end_offset
    new.close_indexes()
    return new


def test_replaced_segments_are_read_at_once(
    log: PartitionLog, disk: CrashDisk, directory: Path
) -> None:
    fill(log, 5)
    log.roll()
    fill(log, 5)

    log.replace_segments(log.segments[:1], [rewrite(log, log.segments[0], 1, 3)])

    assert offsets(log, 0) == [1, 3]
    assert offsets(log, 2) == [3]
    assert offsets(log, 4) == [5, 6, 7, 8, 9]
    assert not any("swap" in name or "cleaned" in name for name in disk.list(directory))


def test_a_read_below_a_bound_in_a_gap_that_compaction_made(log: PartitionLog) -> None:
    fill(log, 5)
    log.roll()
    fill(log, 5)
    log.replace_segments(log.segments[:1], [rewrite(log, log.segments[0], 0)])

    assert offsets(log, 0, max_offset=3) == [0]
    for bound in (4, 5):
        empty = LogSlice(None, 0, 0, Offset(2), Offset(bound))
        assert log.read(2, 1000, max_offset=bound) == empty
    assert offsets(log, 2, max_offset=6) == [5]


def test_a_reader_that_holds_the_old_segment_looks_again(log: PartitionLog) -> None:
    fill(log, 5)
    log.roll()
    old = log.segments[0]
    log.replace_segments([old], [rewrite(log, old, 2)])

    with pytest.raises(FileNotFoundError):
        old.file()


def test_several_segments_become_one(log: PartitionLog) -> None:
    fill(log, 5)
    log.roll()
    fill(log, 5)
    log.roll()
    new = rewrite(log, log.segments[0], 0)
    new.end_offset = 10

    log.replace_segments(log.segments[:2], [new])

    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert log.read(1, 1000).size == 0


def test_the_active_segment_cannot_be_replaced(log: PartitionLog) -> None:
    fill(log, 5)
    new = rewrite(log, log.segments[0], 0)
    with pytest.raises(InvalidArgument):
        log.replace_segments(log.segments, [new])


@pytest.fixture
def two_segments(log: PartitionLog) -> PartitionLog:
    """Records 0..4 in a segment that can be replaced, and 5..9 in the active one."""
    fill(log, 5)
    log.roll()
    fill(log, 5)
    return log


def test_what_is_replaced_is_durable_and_below_the_recovery_point_first(
    two_segments: PartitionLog,
) -> None:
    log = two_segments
    saved: list[int] = []
    log.storage.save_offsets = lambda: saved.append(log.recovery_point)

    log.replace_segments(log.segments[:1], [rewrite(log, log.segments[0], 1)])

    assert saved == [10]


def test_what_is_below_the_recovery_point_already_needs_no_flush(log: PartitionLog) -> None:
    fill(log, 5)
    log.roll()
    log.flush()
    fill(log, 5)

    log.replace_segments(log.segments[:1], [rewrite(log, log.segments[0], 1)])

    assert log.recovery_point == 5


def test_a_new_segment_is_durable_with_all_its_files(
    two_segments: PartitionLog, disk: CrashDisk, directory: Path
) -> None:
    log = two_segments

    log.replace_segments(log.segments[:1], [rewrite(log, log.segments[0], 1, 3)])

    new = log.segments[0]
    assert new.synced_bytes == new.size_bytes
    assert disk.exists(new.transaction_index.path)
    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)
    assert disk.size(new.path) == new.size_bytes
    assert disk.size(new.offset_index.path) > 0
    assert disk.size(new.time_index.path) > 0


def test_segments_of_a_log_that_was_truncated_meanwhile_are_not_replaced(
    two_segments: PartitionLog,
) -> None:
    log = two_segments
    new = rewrite(log, log.segments[0], 1)
    before = log.truncations
    log.truncate_to(8)

    with pytest.raises(InvalidArgument, match="truncated while"):
        log.replace_segments(log.segments[:1], [new], before)
    assert offsets(log, 0) == [0, 1, 2, 3, 4]

    log.replace_segments(log.segments[:1], [new], log.truncations)
    assert offsets(log, 0) == [1]


def test_nothing_cannot_be_replaced(two_segments: PartitionLog) -> None:
    with pytest.raises(InvalidArgument):
        two_segments.replace_segments([], [])


def test_an_exchange_that_a_full_disk_interrupts_takes_the_directory_offline(
    two_segments: PartitionLog, disk: CrashDisk
) -> None:
    """Memory and disk differ then, which only opening it again can mend."""
    log = two_segments
    new = rewrite(log, log.segments[0], 1)
    log.flush()
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "replace"))

    with pytest.raises(StorageError, match="cannot replace"):
        log.replace_segments(log.segments[:1], [new])
    assert log.storage.failure is not None


def test_dropped_segments_do_not_come_back(two_segments: PartitionLog, disk: CrashDisk) -> None:
    log = two_segments
    dropped = log.segments[0].path
    log.delete_records(5)
    assert log.apply_retention() == 1

    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)

    assert not disk.exists(dropped)
