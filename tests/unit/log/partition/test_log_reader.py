"""Reading by offset, by time and by leader epoch."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.partition.loader import load_log
from headrace.log.partition.log_reader import LogReader
from headrace.log.partition.log_slice import LogSlice
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import (
    CorruptIndex,
    LogClosed,
    LogDirectoryOffline,
    OffsetOutOfRange,
    StorageError,
)
from headrace.model.offset import Offset
from headrace.records.batch import Batch, iter_batches
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
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


def test_an_empty_slice_says_where_it_was_asked_for(log: PartitionLog) -> None:
    log.append(sample_batch(b"a", b"b", b"c"), 0)
    log.set_high_watermark(3)

    assert log.read(1, 1000, max_offset=1) == LogSlice(None, 0, 0, Offset(1), Offset(1))
    assert log.read(1, 1000, max_offset=2) == LogSlice(None, 0, 0, Offset(0), Offset(2))
    assert log.read(3, 1000) == LogSlice(None, 0, 0, Offset(3), Offset(3))


def test_a_bound_past_the_end_is_the_end(log: PartitionLog) -> None:
    fill(log, 2)
    piece = log.read(0, 1000, max_offset=9)

    assert (piece.end_offset, len(list(iter_batches(piece.read())))) == (2, 2)


def test_behind_the_last_batch_there_may_be_offsets_without_records(log: PartitionLog) -> None:
    log.append_as_follower(sample_batch(b"a", base_offset=5, leader_epoch=0))
    log._state.tip = log._state.tip._replace(end_offset=7)

    assert log.read(6, 1000, max_offset=7) == LogSlice(None, 0, 0, Offset(6), Offset(7))


def test_a_first_batch_that_just_fits_comes_whole(log: PartitionLog) -> None:
    fill(log, 2)
    size = log.size_bytes // 2

    assert log.read(0, size, at_least_one=False).size == size
    assert log.read(0, size - 1, at_least_one=False).size == 0
    assert log.read(0, size - 1).size == log.read(0, 0).size == size
    assert log.read(0, 2 * size).size == log.read(0, 2 * size + 1).size == 2 * size
    assert log.read(1, 2 * size).position == size


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


def test_an_epoch_of_which_nothing_is_left_ends_at_the_log_start(log: PartitionLog) -> None:
    for epoch in (1, 3, 3, 5):
        log.append(sample_batch(b"a"), epoch)
    log.set_high_watermark(4)

    log.delete_records(2)

    assert tuple(log.epoch_end_offset(1)) == (1, 2)
    assert tuple(log.epoch_end_offset(2)) == (2, 2)
    assert tuple(log.epoch_end_offset(3)) == (3, 3)
    assert tuple(log.epoch_end_offset(5)) == (5, 4)
    assert tuple(log.epoch_end_offset(6)) == (-1, -1)


# -- segments that leave while they are read, and indexes that do not hold -------------------------


class Look:
    """Fails so many times, then finds something."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.times = times
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.times:
            raise self.error
        return "found"


PASSING = [FileNotFoundError("left the log"), CorruptIndex("its entries run backwards")]


@pytest.mark.parametrize("error", PASSING, ids=["gone", "corrupt"])
def test_a_look_is_repeated_four_times(log: PartitionLog, error: Exception) -> None:
    fill(log, 2)

    assert LogReader(log._state).retrying(Look(error, times=4)) == "found"

    look = Look(error, times=5)
    with pytest.raises(StorageError, match="cannot read"):
        LogReader(log._state).retrying(look)
    assert look.calls == 5
    with pytest.raises(LogDirectoryOffline):
        LogReader(log._state).retrying(Look(error, times=0))


@pytest.mark.parametrize("error", PASSING, ids=["gone", "corrupt"])
def test_a_look_into_a_log_that_was_closed_says_so(log: PartitionLog, error: Exception) -> None:
    fill(log, 2)
    log.close()

    with pytest.raises(LogClosed):
        LogReader(log._state).retrying(Look(error, times=1))
    assert log.storage.failure is None


def test_a_disk_that_does_not_read_takes_the_directory_offline_at_once(
    log: PartitionLog, disk: CrashDisk
) -> None:
    fill(log, 2)
    look = Look(OSError(errno.EIO, "Input/output error"), times=1)

    with pytest.raises(StorageError, match="cannot read"):
        LogReader(log._state).retrying(look)

    assert look.calls == 1
    assert log.storage.failure is not None


def begin(log: PartitionLog, producer_id: int) -> None:
    batch = sample_batch(
        b"t", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
    )
    log.append(batch, 0)


@pytest.mark.parametrize("lost", [(), (3,), (1, 3)], ids=["no", "the last", "every"])
@pytest.mark.parametrize("kind", ["index", "timeindex", "txnindex"])
def test_an_index_that_does_not_hold_is_rebuilt_for_a_reader_and_durable(
    open_log: Callable[..., PartitionLog],
    disk: CrashDisk,
    directory: Path,
    kind: str,
    lost: tuple[int, ...],
) -> None:
    """Also when a snapshot of the producers before it is lost: then more is replayed."""
    log = open_log(index_interval_bytes=0)
    begin(log, 1)
    log.roll()
    begin(log, 2)
    log.append_marker(2, 0, 0, commit=False, coordinator_epoch=0)
    log.roll()
    begin(log, 3)
    log.append_marker(1, 0, 0, commit=False, coordinator_epoch=0)
    fill(log, 1)
    log.roll()
    log.close()
    for offset in lost:
        disk.remove(directory / f"{offset:020d}.snapshot")
    path = directory / f"{3:020d}.{kind}"
    sound = disk.read_bytes(path)
    disk.open(path).pwritev([b"\xff" * 5], len(sound))
    disk.sync_all()

    log, _ = load_log(
        Storage(disk, ManualClock()), log.partition, directory, log.config, clean=True
    )
    log.set_high_watermark(6)
    assert offsets(log, 4) == [4, 5]
    assert log.offset_of_max_timestamp().offset == 0
    aborted = log.aborted_transactions(0, 6)

    assert [(each.producer_id, each.first_offset) for each in aborted] == [(1, 0), (2, 1)]
    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)
    assert disk.read_bytes(path) == sound
