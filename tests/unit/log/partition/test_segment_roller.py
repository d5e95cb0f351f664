"""When a log starts a new segment, for what it waits, and what is durable then."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import DiskFull
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill

CLICKS = TopicPartition("clicks", 0)
MIB = 1024 * 1024
FAR = 2**31 + 10
OVERHEAD = len(sample_batch(b"v" * 200_000)) - 200_000


class Rolling:
    """A log, and how often it asked for a flush."""

    def __init__(self, disk: CrashDisk, directory: Path, **config: int) -> None:
        self.asked: list[TopicPartition] = []
        self.log, _ = load_log(
            Storage(disk, ManualClock()),
            CLICKS,
            directory,
            LogConfig(**config),  # type: ignore[arg-type]
            on_roll=self.asked.append,
        )

    def append(self, size_bytes: int) -> None:
        """Append a batch of exactly this size."""
        batch = sample_batch(b"v" * (size_bytes - OVERHEAD))
        assert len(batch) == size_bytes
        self.log.append(batch, 0, from_client=False)

    @property
    def sizes(self) -> list[int]:
        return [segment.size_bytes for segment in self.log.segments]


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_an_empty_segment_is_not_rolled(log: PartitionLog) -> None:
    first = log.segments[0]

    assert log.roll() is first
    fill(log, 1)
    assert log.roll() is log.segments[1]
    assert bases(log) == [0, 1]


def test_the_time_index_of_a_closed_segment_has_its_newest_record(log: PartitionLog) -> None:
    for timestamp_ms in (1000, 3000, 2000):
        log.append(sample_batch(b"a", timestamp_ms=timestamp_ms), 0)
    assert log.segments[0].time_index.count == 0

    log.roll()

    assert log.segments[0].time_index.last_entry == (3000, 1)


def test_rolling_asks_for_a_flush_and_owes_a_snapshot_of_the_producers(
    disk: CrashDisk, directory: Path
) -> None:
    rolling = Rolling(disk, directory)
    log = rolling.log
    log.append(sample_batch(b"a", producer_id=1, producer_epoch=0, sequence=0), 0)
    log.roll()
    assert rolling.asked == [CLICKS]
    log.append(sample_batch(b"b", producer_id=1, producer_epoch=0, sequence=1), 0)

    log.flush()
    log.truncate_to(1)

    assert [entry.last_sequence for entry in log.producer_entries()] == [0]
    assert disk.exists(directory / f"{1:020d}.snapshot")


def test_the_active_segment_goes_on_to_twice_its_size_and_no_byte_further(
    disk: CrashDisk, directory: Path
) -> None:
    rolling = Rolling(disk, directory, segment_bytes=MIB)
    rolling.append(MIB)
    rolling.append(MIB)
    assert rolling.sizes == [MIB, MIB]

    rolling.append(MIB - 300_000)
    rolling.append(300_000)
    assert rolling.sizes == [MIB, 2 * MIB]
    # Once for the roll, and once for the segment that waits.
    assert rolling.asked == [CLICKS] * 2

    rolling.append(200_000)
    assert rolling.sizes == [MIB, 2 * MIB, 200_000]


def test_small_segments_are_rolled_at_once(disk: CrashDisk, directory: Path) -> None:
    rolling = Rolling(disk, directory, segment_bytes=MIB - 1)
    for _ in range(3):
        rolling.append(MIB - 1)

    assert rolling.sizes == [MIB - 1] * 3
    assert disk.unsynced_bytes(rolling.log.segments[0].path) == 0
    assert disk.unsynced_bytes(rolling.log.segments[1].path) > 0


def test_all_but_the_last_two_of_many_segments_are_durable(
    disk: CrashDisk, directory: Path
) -> None:
    rolling = Rolling(disk, directory, segment_bytes=MIB - 1)
    for count in range(1, 6):
        rolling.append(MIB - 1)

        settled = rolling.log.segments[:-2]
        assert len(settled) == max(0, count - 2)
        assert all(disk.unsynced_bytes(each.path) == 0 for each in settled)
        assert all(each.synced_bytes == each.size_bytes for each in settled)
        named = {each.path.name for each in rolling.log.segments[: count - 1]}
        assert count < 3 or named <= disk.durable_names(directory)


def test_a_roll_does_not_wait_for_what_is_durable_already(disk: CrashDisk, directory: Path) -> None:
    rolling = Rolling(disk, directory, segment_bytes=MIB - 1)
    rolling.append(MIB - 1)
    rolling.append(MIB - 1)
    rolling.log.sync()
    before = disk.sync_count

    rolling.append(MIB - 1)

    assert len(rolling.sizes) == 3
    assert disk.sync_count == before


def test_a_segment_is_rolled_once_the_one_before_and_its_name_are_durable(
    disk: CrashDisk, directory: Path
) -> None:
    rolling = Rolling(disk, directory, segment_bytes=MIB)
    rolling.append(MIB)
    rolling.append(MIB)
    rolling.log.segments[0].sync()
    rolling.log.segments[0].synced_bytes = MIB
    rolling.append(200_000)
    assert len(rolling.sizes) == 2

    rolling.log.sync()
    rolling.append(200_000)
    assert rolling.sizes == [MIB, MIB + 200_000, 200_000]


def test_a_segment_whose_index_is_full_does_not_go_on(disk: CrashDisk, directory: Path) -> None:
    rolling = Rolling(
        disk, directory, segment_bytes=MIB, segment_index_bytes=24, index_interval_bytes=0
    )
    for _ in range(12):
        rolling.append(200_000)

    assert all(segment.offset_index.count <= 3 for segment in rolling.log.segments)
    assert len(rolling.sizes) > 3


# -- a jump of offsets that no index can hold ------------------------------------------------------


@pytest.mark.parametrize(
    ("base_offset", "starts_at"), [(2**31 + 3, 2**31 + 3), (2**31 + 2, 3), (2**31 - 1, None)]
)
def test_a_jump_starts_a_segment_where_no_index_can_hold_it(
    log: PartitionLog, base_offset: int, starts_at: int | None
) -> None:
    """Of 31 bits over the segment's base; a segment at the log end may still hold it."""
    fill(log, 3)

    log.append_as_follower(sample_batch(b"far", base_offset=base_offset, leader_epoch=0))

    assert bases(log) == [0, *([] if starts_at is None else [starts_at])]


def test_all_before_a_jump_is_durable_when_it_is_written(disk: CrashDisk, directory: Path) -> None:
    saved: list[int] = []
    rolling = Rolling(disk, directory, index_interval_bytes=0)
    log = rolling.log
    log.storage.save_offsets = lambda: saved.append(log.recovery_point)
    for sequence in range(4):
        log.append(sample_batch(b"v", producer_id=1, producer_epoch=0, sequence=sequence), 5)
        if sequence == 1:
            log.roll()
            rolling.asked.clear()

    log.append_as_follower(sample_batch(b"far", base_offset=FAR, leader_epoch=5))

    assert saved == [FAR]
    assert f"{FAR:020d}.log" in disk.durable_names(directory)
    assert all(each.synced_bytes == each.size_bytes for each in log.segments[:-1])
    assert rolling.asked == [CLICKS]
    assert (log.recovery_point, log.synced_offset, log.log_end_offset) == (FAR, FAR, FAR + 1)
    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)
    again, recovered = load_log(
        Storage(disk, ManualClock()), CLICKS, directory, LogConfig(), recovery_point=FAR
    )
    assert (again.log_end_offset, bases(again)) == (FAR, [0, 2, FAR])
    assert recovered.cut_bytes == recovered.rebuilt_indexes == 0
    assert [entry.last_sequence for entry in again.producer_entries()] == [3]
    assert again.epochs.entries == ((5, 0),)
    assert disk.exists(directory / f"{2:020d}.snapshot")
    assert disk.size(directory / f"{2:020d}.index") > 0


@pytest.mark.parametrize("view", [bytes, memoryview], ids=["slow", "fast"])
def test_a_jump_whose_batch_finds_no_room_can_be_made_again(
    log: PartitionLog, disk: CrashDisk, view: Callable[[bytes], bytes]
) -> None:
    fill(log, 3)
    batch = sample_batch(b"far", base_offset=FAR, leader_epoch=0)
    disk.inject(
        Fault(errno.ENOSPC, lambda call: call.name == "pwritev" and f"{FAR}.log" in str(call.path))
    )
    with pytest.raises(DiskFull):
        log.append_as_follower(view(batch))
    assert log.log_end_offset == FAR
    assert log.segments[-1].size_bytes == 0

    log.append_as_follower(view(batch))

    assert log.read(FAR, 1000, max_offset=FAR + 1).read() == batch
    assert log.log_end_offset == FAR + 1


def test_a_write_that_is_refused_after_a_flush_was_asked_for_asks_for_another(
    disk: CrashDisk, directory: Path
) -> None:
    """The first flush may have begun before the write, and pays only for those before it."""
    rolling = Rolling(disk, directory, segment_bytes=2 * MIB)

    def refuse_one() -> None:
        full = disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", times=None))
        with pytest.raises(DiskFull):
            rolling.append(MIB // 2)
        disk.faults.remove(full)

    rolling.append(MIB)
    refuse_one()
    rolling.append(MIB)
    rolling.append(MIB // 2)
    rolling.append(MIB // 4)
    assert len(rolling.asked) == 1

    refuse_one()
    rolling.append(MIB // 8)

    assert len(rolling.asked) == 2
    assert len(rolling.sizes) == 1
