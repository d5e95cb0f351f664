"""Dropping the end of a log, or all of it."""

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producer.snapshot_files import SnapshotFiles
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import (
    CorruptBatch,
    DiskFull,
    InvalidArgument,
    LogClosed,
    StorageError,
    UnexpectedAppendOffset,
)
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill


def test_truncating_takes_whole_batches(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b"), 0)
    log.append(sample_batch(b"c", b"d"), 0)

    assert log.truncate_to(3)

    assert log.log_end_offset == 2
    assert not log.truncate_to(2)


def test_truncations_are_counted(log: PartitionLog) -> None:
    fill(log, 5)
    assert log.truncations == 0
    log.truncate_to(9)
    assert log.truncations == 0
    log.truncate_to(4)
    log.truncate_to(2)
    assert log.truncations == 2


def test_truncating_across_segments_restores_what_was_known_then(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0), 0)
    fill(log, 50)
    for sequence in range(1, 50):
        log.append(sample_batch(b"b", producer_id=1, producer_epoch=0, sequence=sequence), 1)

    log.truncate_to(20)

    assert log.log_end_offset == log.segments[-1].end_offset == 20
    assert [entry.last_sequence for entry in log.producer_entries()] == [0]
    assert log.latest_epoch == 0
    log.append(sample_batch(b"c", producer_id=1, producer_epoch=0, sequence=1), 2)
    assert log.log_end_offset == 21


def test_emptying_a_log_starts_it_at_an_offset(log: PartitionLog) -> None:
    fill(log, 50)

    log.truncate_fully_and_start_at(1000)

    assert log.log_start_offset == log.high_watermark == log.log_end_offset == 1000
    assert log.append(sample_batch(b"a"), 0).base_offset == 1000


def test_truncating_below_the_start_empties_the_log(log: PartitionLog) -> None:
    fill(log, 10)
    log.delete_records(8)

    changes = log.storage.changes

    assert log.truncate_to(5)

    assert log.log_start_offset == log.log_end_offset == 5
    assert log.storage.changes == changes + 1


def test_truncating_to_the_start_keeps_what_producers_did_below_it(log: PartitionLog) -> None:
    def numbered(sequence: int) -> bytes:
        return sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=sequence)

    for sequence in range(4):
        log.append(numbered(sequence), 0)
    log.set_high_watermark(2)
    log.delete_records(2)

    assert log.truncate_to(2)

    assert log.log_start_offset == log.log_end_offset == 2
    assert log.append(numbered(1), 0).duplicate
    assert not log.append(numbered(2), 0).duplicate


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_log_can_be_emptied_to_its_very_beginning(log: PartitionLog, call: str) -> None:
    fill(log, 3)

    getattr(log, call)(0)

    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)


def test_what_was_cut_off_does_not_come_back(
    open_log: Callable[..., PartitionLog], disk: CrashDisk, directory: Path
) -> None:
    log = open_log()
    for epoch in (1, 2, 3):
        for _ in range(5):
            log.append(sample_batch(b"a"), epoch)
        log.flush()
        log.roll()
    dropped = [segment.path for segment in log.segments[1:]]

    log.truncate_to(3)

    assert [segment.base_offset for segment in log.segments] == [0]
    assert log.segments[0].end_offset == 3
    disk.crash(random.Random(1), loss=Loss.EVERYTHING, chaos=False)
    assert not any(disk.exists(path) for path in dropped)
    assert disk.read_bytes(directory / "leader-epoch-checkpoint") == b"0\n1\n1 0\n"
    assert not [name for name in disk.list(directory) if name.endswith(".snapshot")]


@pytest.mark.parametrize(("offset", "left"), [(2, [4]), (3, [3, 5])])
def test_no_snapshot_is_owed_above_the_end(
    log: PartitionLog, disk: CrashDisk, directory: Path, offset: int, left: list[int]
) -> None:
    fill(log, 3)
    log.roll()
    fill(log, 3)

    log.truncate_to(offset)
    fill(log, 2)
    log.flush()

    names = disk.list(directory)
    assert sorted(int(name[:20]) for name in names if name.endswith(".snapshot")) == left


def test_without_a_snapshot_producers_are_read_from_the_whole_log(log: PartitionLog) -> None:
    batch = sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0)
    log.append(batch, 0)
    log.roll()
    fill(log, 5)

    log.truncate_to(4)

    assert log.append(batch, 0).duplicate


def test_a_transaction_that_ended_below_the_high_watermark_stays_ended(log: PartitionLog) -> None:
    batch = sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0, transactional=True)
    log.append(batch, 0)
    log.append_marker(1, 0, 0, commit=True, coordinator_epoch=0)
    fill(log, 3)
    log.set_high_watermark(3)

    log.truncate_to(4)

    assert log.last_stable_offset == log.high_watermark == 3


def test_snapshots_are_not_read_while_a_checkpoint_removes_some(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 5)
    log.flush()
    held: list[bool] = []
    latest = SnapshotFiles.latest

    def watched(snapshots: SnapshotFiles, at_most: int) -> object:
        held.append(log._state.snapshot_lock.locked())
        return latest(snapshots, at_most)

    monkeypatch.setattr(SnapshotFiles, "latest", watched)

    log.truncate_to(3)

    assert held == [True]


def test_the_last_segment_ends_where_the_log_does(log: PartitionLog) -> None:
    for base_offset in (5, 9):
        log.append_as_follower(sample_batch(b"a", base_offset=base_offset, leader_epoch=0))

    log.truncate_to(7)

    assert log.segments[-1].end_offset == log.log_end_offset == 6


def test_an_emptied_log_does_not_come_back(
    open_log: Callable[..., PartitionLog], disk: CrashDisk, directory: Path
) -> None:
    log = open_log()
    for _ in range(5):
        log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=_), 1)
        log.roll()
        log.flush()

    log.truncate_fully_and_start_at(50)

    assert disk.durable_names(directory) >= {"00000000000000000050.log"}
    assert log.producer_entries() == []
    assert (log.epochs.entries, log.recovery_point, log.synced_offset) == ((), 5, 50)
    disk.crash(random.Random(1), loss=Loss.EVERYTHING, chaos=False)
    names = disk.list(directory)
    assert [name for name in names if name.endswith(".log")] == ["00000000000000000050.log"]
    assert not [name for name in names if name.endswith(".snapshot")]
    assert disk.read_bytes(directory / "leader-epoch-checkpoint") == b"0\n0\n"


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_truncation_that_a_full_disk_interrupts_takes_the_directory_offline(
    log: PartitionLog, disk: CrashDisk, call: str
) -> None:
    """Memory and disk differ then, which only opening it again can mend."""
    fill(log, 5)
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name in ("truncate", "replace")))

    with pytest.raises(StorageError, match="cannot truncate"):
        getattr(log, call)(3)
    assert log.storage.failure is not None


def test_after_a_restart_the_empty_segment_ends_where_the_log_starts(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(5)
    broken = bytearray(spanning())
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.restart_with(bytes(broken))

    assert [(each.base_offset, each.end_offset) for each in log.segments] == [(5, 5)]
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_negative_offset_is_a_wrong_argument(log: PartitionLog, call: str) -> None:
    with pytest.raises(InvalidArgument):
        getattr(log, call)(-1)


def spanning(base_offset: int = 2, records: int = 8) -> bytes:
    return sample_batch(*[b"x"] * records, base_offset=base_offset, leader_epoch=3)


def test_a_batch_that_begins_below_the_start_of_an_empty_log_is_its_first(
    log: PartitionLog,
) -> None:
    log.truncate_fully_and_start_at(5)
    fetched = spanning() + sample_batch(b"y", base_offset=10, leader_epoch=4)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(fetched)

    assert log.spans_start(fetched)
    log.restart_with(fetched)

    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (5, 5, 11)
    assert [each.base_offset for each in log.segments] == [2]
    assert log.epochs.entries == ((3, 5), (4, 10))
    assert log.read(5, 1 << 20, max_offset=11).first_offset == 2


def test_a_batch_whose_last_record_is_the_start_spans_it(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(5)

    log.restart_with(spanning(base_offset=2, records=4))

    assert (log.log_start_offset, log.log_end_offset) == (5, 6)


@pytest.mark.parametrize(("base_offset", "records"), [(2, 3), (5, 1), (7, 2)])
def test_a_batch_that_does_not_span_the_start_restarts_nothing(
    log: PartitionLog, base_offset: int, records: int
) -> None:
    log.truncate_fully_and_start_at(5)

    with pytest.raises(UnexpectedAppendOffset):
        log.restart_with(spanning(base_offset, records))

    assert [each.base_offset for each in log.segments] == [5]


def test_a_log_with_records_is_not_restarted(log: PartitionLog) -> None:
    fill(log, 5)

    with pytest.raises(UnexpectedAppendOffset):
        log.restart_with(spanning())

    assert log.log_end_offset == 5


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_that_begins_in_the_middle_of_a_batch_opens_again(
    log: PartitionLog, disk: CrashDisk, directory: Path, clean: bool
) -> None:
    log.truncate_fully_and_start_at(5)
    log.restart_with(spanning())
    log.close()

    again, _ = load_log(
        Storage(disk, ManualClock()),
        log.partition,
        directory,
        LogConfig(),
        log_start=5,
        recovery_point=log.recovery_point,
        clean=clean,
    )

    assert (again.log_start_offset, again.log_end_offset) == (5, 10)


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_in_a_restart_leaves_an_empty_log_or_the_whole_batch(
    log: PartitionLog, disk: CrashDisk, directory: Path, seed: int
) -> None:
    log.truncate_fully_and_start_at(5)
    log.flush(force=True)
    saved = []
    log.storage.save_offsets = lambda: saved.append(log.recovery_point)
    log.restart_with(spanning())

    disk.crash(random.Random(seed))
    again, _ = load_log(
        Storage(disk, ManualClock()),
        log.partition,
        directory,
        LogConfig(),
        log_start=5,
        recovery_point=saved[-1],
    )

    assert again.log_start_offset == 5
    assert again.log_end_offset in (5, 10)
    if again.log_end_offset == 5:
        again.restart_with(spanning())
    assert again.read(5, 1 << 20, max_offset=10).first_offset == 2


def test_truncating_into_a_batch_that_spans_the_start_leaves_no_end_below_it(
    log: PartitionLog,
) -> None:
    log.append(sample_batch(*[b"x"] * 10), 0)
    log.set_high_watermark(10)
    log.delete_records(5)

    assert log.truncate_to(7)

    assert log.log_start_offset == log.log_end_offset == 7


@pytest.mark.parametrize("call", ["truncate_to", "truncate_fully_and_start_at", "delete_records"])
def test_a_log_that_is_gone_is_left_alone(log: PartitionLog, call: str) -> None:
    fill(log, 10)
    log.abandon()

    with pytest.raises(LogClosed):
        getattr(log, call)(5)
    assert not log.storage.failure


@pytest.mark.parametrize(
    ("call", "offset"),
    [("truncate_to", 20), ("truncate_to", 3), ("truncate_fully_and_start_at", 1000)],
)
def test_a_truncation_that_could_not_be_announced_has_changed_nothing(
    log: PartitionLog, call: str, offset: int
) -> None:
    fill(log, 50)
    log.set_high_watermark(40)
    log.flush()
    log.delete_records(8)

    def offsets() -> tuple[int, ...]:
        start, end = log.log_start_offset, log.log_end_offset
        return start, log.high_watermark, end, log.recovery_point

    def full(partition: TopicPartition, end: int) -> None:
        raise DiskFull("there is no room")

    log.storage.on_truncation(full)
    before = offsets()

    with pytest.raises(DiskFull):
        getattr(log, call)(offset)

    assert offsets() == before
