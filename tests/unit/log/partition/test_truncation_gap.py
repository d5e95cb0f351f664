"""Truncating a log to an offset that lies in a gap, which compaction left on the leader."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)
DATA = Path("/data")
Open = Callable[[], LogDirectory]


@pytest.fixture(params=[("compact", "delete"), ("delete",)], ids=["compacted", "not compacted"])
def open_directory(disk: CrashDisk, request: pytest.FixtureRequest) -> Open:
    config = LogConfig(cleanup_policy=request.param, index_interval_bytes=100)
    return lambda: LogDirectory.open(
        DATA, filesystem=disk, background=False, configs=lambda topic: config
    )


def copy(log: PartitionLog, *ranges: tuple[int, int], epoch: int = 1) -> None:
    """Append batches as they come from a leader, each from its first offset up to its last."""
    for first, last in ranges:
        values = [b"v"] * (last - first + 1)
        log.append_as_follower(sample_batch(*values, base_offset=first, leader_epoch=epoch))
    log.set_high_watermark(log.log_end_offset)


def durable(directory: LogDirectory, log: PartitionLog) -> PartitionLog:
    log.flush()
    directory.checkpoint()
    return log


@pytest.mark.parametrize("offset", [11, 30, 50, 55])
def test_the_log_ends_where_its_last_batch_does(open_directory: Open, offset: int) -> None:
    directory = open_directory()
    log = directory.create(CLICKS)
    copy(log, (0, 4), (5, 9), (50, 59), (60, 69))
    durable(directory, log)

    assert log.truncate_to(offset)

    assert log.log_end_offset == log.segments[-1].end_offset == 10
    assert (log.recovery_point, log.synced_offset, log.high_watermark) == (10, 10, 10)


@pytest.mark.parametrize("offset", [30, 55])
def test_it_opens_with_the_same_end_after_a_crash(
    open_directory: Open, disk: CrashDisk, offset: int
) -> None:
    directory = open_directory()
    log = directory.create(CLICKS)
    copy(log, (0, 9), (50, 59))
    durable(directory, log).truncate_to(offset)

    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)

    again = open_directory().get(CLICKS)
    assert again.log_end_offset == log.log_end_offset == 10
    copy(again, (50, 54), epoch=2)
    assert again.log_end_offset == 55
    assert again.epochs.entries == ((1, 0), (2, 10))


def test_it_opens_with_the_same_end_after_an_ordered_stop(open_directory: Open) -> None:
    directory = open_directory()
    log = directory.create(CLICKS)
    copy(log, (0, 9), (50, 59))
    log.truncate_to(30)
    directory.close()

    assert open_directory().get(CLICKS).log_end_offset == log.log_end_offset


def test_a_gap_before_the_next_segment_is_one_too(open_directory: Open, disk: CrashDisk) -> None:
    directory = open_directory()
    log = directory.create(CLICKS)
    copy(log, (0, 9))
    log.roll()
    copy(log, (50, 59))
    durable(directory, log).truncate_to(30)

    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)

    assert open_directory().get(CLICKS).log_end_offset == log.log_end_offset == 10


def test_nothing_is_left_when_the_log_starts_in_the_gap(open_directory: Open) -> None:
    directory = open_directory()
    log = directory.create(CLICKS)
    copy(log, (0, 9), (50, 59))
    log.delete_records(20)

    assert log.truncate_to(30)

    assert log.log_start_offset == log.log_end_offset == 30
    assert log.size_bytes == 0


def test_a_leader_that_was_truncated_says_that_its_epoch_ends_with_its_log(
    open_directory: Open,
) -> None:
    directory = open_directory()
    log = directory.create(CLICKS)
    copy(log, (0, 9))
    copy(log, (50, 59), epoch=2)

    log.truncate_to(30)

    assert log.epochs.entries == ((1, 0),)
    assert log.epoch_end_offset(1) == (1, 10)
