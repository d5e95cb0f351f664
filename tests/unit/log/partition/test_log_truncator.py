"""Dropping the end of a log, or all of it."""

import random
from pathlib import Path

import pytest

from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import DiskFull, InvalidArgument, LogClosed, UnexpectedAppendOffset
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
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

    log.truncate_to(5)

    assert log.log_start_offset == log.log_end_offset == 5


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

    log.truncate_to(7)

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
