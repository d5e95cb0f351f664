"""Compaction on a disk that is nearly full."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.log.compaction.cleanable_range import cleanable_range
from headrace.log.compaction.compactor import CompactionStats, Compactor
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import DiskFull
from headrace.model.ids import TopicPartition
from headrace.model.offset import Offset
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch, read_batches

RESERVED_BYTES = 64 * 1024 * 1024
CONFIG = LogConfig(cleanup_policy=("compact",))


@pytest.fixture
def log(disk: CrashDisk, directory: Path) -> PartitionLog:
    """A log of three closed segments, in each of which a key has two values."""
    partition = TopicPartition("accounts", 0)
    log, _ = load_log(Storage(disk, ManualClock()), partition, directory, CONFIG)
    for key in (b"a", b"b", b"c"):
        for value in (b"1", b"2"):
            log.append(keyed_batch([KeyedRecord(key, value)]), 0, from_client=False)
        log.set_high_watermark(log.log_end_offset)
        log.roll()
    log.config = replace(CONFIG, segment_bytes=log.segments[0].size_bytes)  # one in each group
    return log


def compact(log: PartitionLog) -> CompactionStats:
    cleanable = cleanable_range(
        log.segments, log.config, first_dirty=Offset(0), last_stable=log.log_end_offset, now_ms=0
    )
    return Compactor(ManualClock(), memory_bytes=1 << 16).clean(log, cleanable)


def offsets(log: PartitionLog) -> list[int | None]:
    found: list[int | None] = []
    for segment in log.segments:
        data = segment.file().pread(segment.size_bytes, 0)
        found += [record.offset for batch in read_batches(data) for record in batch.records]
    return found


def refused(log: PartitionLog, disk: CrashDisk) -> list[Call]:
    """Compact a log for which there is no room; return what was asked of the disk."""
    calls: list[Call] = []

    def note(call: Call) -> bool:
        calls.append(call)
        return False

    disk.inject(Fault(when=note, times=None))
    with pytest.raises(DiskFull, match="cannot compact accounts-0"):
        compact(log)
    assert log.storage.failure is None
    return calls


def test_nothing_is_read_or_written_when_the_first_group_has_no_room(
    log: PartitionLog, disk: CrashDisk
) -> None:
    disk.free = RESERVED_BYTES + log.segments[0].size_bytes - 1
    calls = refused(log, disk)
    assert not [call for call in calls if call.mutates or call.name == "pread"]


def test_nothing_is_rewritten_when_a_later_group_has_no_room(
    log: PartitionLog, disk: CrashDisk
) -> None:
    disk.free = RESERVED_BYTES + log.segments[0].size_bytes
    log.append(keyed_batch([KeyedRecord(b"d", b"v" * 1000)]), 0, from_client=False)
    log.set_high_watermark(log.log_end_offset)
    log.roll()
    assert not [call for call in refused(log, disk) if call.mutates]


def test_segments_that_are_joined_need_room_together(log: PartitionLog, disk: CrashDisk) -> None:
    log.config = CONFIG
    disk.free = RESERVED_BYTES + 2 * log.segments[0].size_bytes
    assert not [call for call in refused(log, disk) if call.mutates]


def test_a_group_is_written_where_it_leaves_just_enough_room(
    log: PartitionLog, disk: CrashDisk
) -> None:
    disk.free = RESERVED_BYTES + log.segments[0].size_bytes
    compact(log)
    assert offsets(log) == [1, 3, 5]


def test_the_groups_for_which_there_is_room_are_compacted(
    log: PartitionLog, disk: CrashDisk
) -> None:
    asked = 0

    def fill_up(call: Call) -> bool:
        nonlocal asked
        if call.name == "free_bytes":
            asked += 1
            disk.free = 1 << 40 if asked < 4 else 0  # before the round, and for two groups
        return False

    disk.inject(Fault(when=fill_up, times=None))

    with pytest.raises(DiskFull):
        compact(log)

    assert offsets(log) == [1, 3, 4, 5]
    assert not [name for name in disk.list(log.path) if "cleaned" in name]
