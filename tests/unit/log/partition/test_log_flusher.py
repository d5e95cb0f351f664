"""What is on disk, and what a failing disk does."""

import errno
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from headrace.log.partition.partition_log import PartitionLog
from headrace.log.segment.segment import Segment
from headrace.model.clock import ManualClock
from headrace.model.error import (
    DiskFull,
    LogClosed,
    LogDirectoryOffline,
    OffsetOutOfRange,
    StorageError,
)
from headrace.records.batch import iter_batches
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill

OpenLog = Callable[..., PartitionLog]


# -- durability ------------------------------------------------------------------------------------


def test_sync_makes_everything_durable_with_one_fsync(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 3)
    log.sync()
    fill(log, 3)
    before = disk.sync_count

    assert log.sync() == 6

    assert disk.sync_count == before + 1
    assert log.synced_offset == 6
    assert log.recovery_point == 0


def test_flush_moves_the_recovery_point(log: PartitionLog) -> None:
    fill(log, 3)
    assert log.flush() == log.recovery_point == log.synced_offset == 3


def test_flush_messages_and_flush_ms_say_when_to_sync(
    open_log: OpenLog, clock: ManualClock
) -> None:
    log = open_log(flush_messages=3, flush_ms=1000)
    fill(log, 2)
    assert not log.sync_due()
    fill(log, 1)
    assert log.sync_due()
    log.sync()
    assert not log.sync_due()
    fill(log, 1)
    clock.advance(1000)
    assert log.sync_due()


def test_flush_ms_counts_from_the_last_sync(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(flush_ms=1000)
    fill(log, 1)
    clock.advance(600)
    log.sync()
    fill(log, 1)
    clock.advance(999)
    assert not log.sync_due()
    clock.advance(1)
    assert log.sync_due()


def test_what_is_on_disk_needs_no_sync_however_long_it_waits(
    open_log: OpenLog, clock: ManualClock, disk: CrashDisk
) -> None:
    log = open_log(flush_ms=1000)
    fill(log, 1)
    log.sync()
    clock.advance(5000)
    assert not log.sync_due()
    before = disk.sync_count
    log.sync()
    assert disk.sync_count == before


def test_a_flush_with_nothing_new_costs_nothing_unless_it_is_forced(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 3)
    log.roll()
    fill(log, 3)
    log.flush()
    before = disk.calls
    assert log.flush() == 6
    assert disk.calls == before
    log.flush(force=True)
    assert disk.calls > before


def test_a_flush_makes_a_segment_durable_that_was_rolled_since_the_last_one(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 3)
    log.flush()
    log.roll()
    log.flush()

    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)

    assert disk.exists(log.segments[1].path)


def test_a_flush_makes_the_names_of_new_indexes_durable(open_log: OpenLog, disk: CrashDisk) -> None:
    log = open_log(index_interval_bytes=0)
    fill(log, 3)
    log.sync()
    log.flush()

    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)

    assert disk.size(log.segments[0].offset_index.path) > 0
    assert disk.size(log.segments[0].time_index.path) > 0


def test_snapshots_that_no_recovery_needs_go_unless_the_log_is_closed(
    log: PartitionLog, disk: CrashDisk, directory: Path
) -> None:
    def snapshots() -> list[int]:
        names = disk.list(directory)
        return sorted(int(name[:20]) for name in names if name.endswith(".snapshot"))

    for _ in range(4):
        fill(log, 1)
        log.flush()
    assert snapshots() == [1, 2, 3, 4]

    log.prune_snapshots(3)
    assert snapshots() == [2, 3, 4]

    log.close()
    log.prune_snapshots(4)
    assert snapshots() == [2, 3, 4]


def test_rolling_twice_syncs_the_first(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 1)
    log.roll()
    fill(log, 1)
    log.roll()
    assert disk.unsynced_bytes(log.segments[0].path) == 0
    assert disk.unsynced_bytes(log.segments[1].path) > 0


def test_a_full_disk_refuses_the_append_and_nothing_else(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 2)
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=30))

    with pytest.raises(DiskFull, match="no room"):
        log.append(sample_batch(b"a"), 0)

    assert log.log_end_offset == 2
    assert log.segments[0].file().size() == log.segments[0].size_bytes
    assert log.append(sample_batch(b"b"), 0).base_offset == 2


def test_a_failed_write_takes_the_directory_offline_once(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 2)
    disk.inject(Fault(errno.EIO, lambda call: call.name == "pwritev", written_bytes=30))

    with pytest.raises(StorageError, match="cannot append"):
        log.append(sample_batch(b"a"), 0)

    assert log.log_end_offset == 2
    for call in (lambda: log.append(sample_batch(b"b"), 0), log.sync, lambda: log.read(0, 1)):
        with pytest.raises(LogDirectoryOffline):
            call()


def test_a_failed_sync_is_not_tried_again(log: PartitionLog, disk: CrashDisk) -> None:
    fill(log, 2)
    disk.inject(Fault(errno.EIO, lambda call: call.name == "sync"))
    with pytest.raises(StorageError, match="cannot sync"):
        log.sync()
    with pytest.raises(LogDirectoryOffline):
        log.sync()
    assert log.synced_offset == 0


def test_a_disk_that_fails_while_closing_is_reported_as_such(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 2)
    log.segments[0].reload_time()
    disk.inject(Fault(errno.EIO, lambda call: call.name == "pread"))
    with pytest.raises(StorageError, match="cannot close"):
        log.close()


def test_a_closed_log_takes_nothing(log: PartitionLog) -> None:
    fill(log, 2)
    log.close()
    with pytest.raises(LogClosed):
        log.append(sample_batch(b"a"), 0)
    log.close()


# -- threads ---------------------------------------------------------------------------------------


def test_readers_and_background_work_do_not_disturb_appends(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024, index_interval_bytes=100, retention_bytes=8000)
    problems: list[BaseException] = []
    done = False

    def watch(work: Callable[[], object]) -> None:
        try:
            while not done:
                work()
        except Exception as error:  # noqa: BLE001 - shown by the assert below
            problems.append(error)

    rng = Random(1)

    def read() -> None:
        start = rng.randint(log.log_start_offset, log.high_watermark)
        try:
            batches = list(iter_batches(log.read(start, 4096).read()))
        except OffsetOutOfRange:
            return  # retention was faster
        assert not batches or batches[0].base_offset <= start <= batches[0].last_offset
        for before, after in pairwise(batches):
            assert after.base_offset == before.next_offset

    threads = [
        Thread(target=watch, args=(work,)) for work in (read, log.flush, log.apply_retention)
    ]
    for thread in threads:
        thread.start()
    for _ in range(1500):
        log.append(sample_batch(b"x" * 40, b"y"), 0)
        log.set_high_watermark(log.log_end_offset)
    done = True
    for thread in threads:
        thread.join()

    assert problems == []
    assert log.log_end_offset == 3000


# -- rolling without waiting -----------------------------------------------------------------------

MIB = 1024 * 1024


def test_an_append_does_not_wait_for_the_segment_before_to_be_synced(
    open_log: OpenLog, disk: CrashDisk
) -> None:
    """The active segment goes on, until the one before is synced or it has twice its size."""
    log = open_log(segment_bytes=MIB)
    large = b"v" * (MIB // 4)
    for _ in range(4):
        log.append(sample_batch(large), 0)
    assert len(log.segments) == 2
    before = disk.sync_count

    for _ in range(4):
        log.append(sample_batch(large), 0)
    assert (len(log.segments), disk.sync_count) == (2, before)

    log.sync()
    log.append(sample_batch(large), 0)
    assert len(log.segments) == 3


def test_an_append_waits_when_a_segment_has_twice_its_size(
    open_log: OpenLog, disk: CrashDisk
) -> None:
    log = open_log(segment_bytes=MIB)
    for _ in range(12):
        log.append(sample_batch(b"v" * (MIB // 4)), 0)

    assert len(log.segments) == 3
    assert all(segment.size_bytes <= 2 * MIB for segment in log.segments)
    assert disk.unsynced_bytes(log.segments[0].path) == 0


def test_a_segment_that_a_truncation_takes_away_meanwhile_harms_no_flush(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(segment_bytes=200)
    fill(log, 6)
    sync = Segment.sync
    taken_away: list[Segment] = []

    def truncate_first(segment: Segment) -> None:
        if not taken_away and segment.base_offset > 0:
            taken_away.append(segment)
            assert log.truncate_to(segment.base_offset - 1)
        sync(segment)

    monkeypatch.setattr(Segment, "sync", truncate_first)

    assert log.flush() < 6

    assert all(segment.retired for segment in taken_away)
    fill(log, 1)
    assert log.flush() == log.log_end_offset
