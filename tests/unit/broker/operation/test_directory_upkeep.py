"""Upkeep of several log directories, one of which is full."""

import errno
from pathlib import Path

import pytest

from headrace.broker.operation.directory_upkeep import for_each_directory
from headrace.log.log_directory import LogDirectory
from headrace.model.error import DiskFull
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.sample.filled_log import fill

CLICKS = TopicPartition("clicks", 0)


def filled_directory(path: Path) -> LogDirectory:
    directory = LogDirectory.open(
        path,
        filesystem=CrashDisk(),
        background=False,
        configs=lambda topic: LogConfig(segment_bytes=1024, retention_ms=-1, retention_bytes=0),
    )
    fill(directory.create(CLICKS), 30)
    return directory


@pytest.fixture
def directories() -> list[LogDirectory]:
    return [filled_directory(Path(path)) for path in ("/disk1", "/disk2", "/disk3")]


def fail(directory: LogDirectory, error: int) -> None:
    disk = directory.storage.filesystem
    assert isinstance(disk, CrashDisk)
    disk.inject(Fault(error, lambda call: call.name in {"create", "pwritev"}, times=None))


def test_retention_goes_on_behind_a_disk_that_is_full(directories: list[LogDirectory]) -> None:
    fail(directories[0], errno.ENOSPC)

    with pytest.raises(DiskFull):
        for_each_directory(directories, LogDirectory.maintain)

    assert [each.get(CLICKS).log_start_offset for each in directories] == [0, 30, 30]


def test_the_first_failure_is_reported(directories: list[LogDirectory]) -> None:
    for each in directories[:2]:
        fail(each, errno.ENOSPC)

    with pytest.raises(DiskFull, match="disk1"):
        for_each_directory(directories, LogDirectory.checkpoint)


def test_without_a_failure_all_have_had_their_turn(directories: list[LogDirectory]) -> None:
    seen: list[Path] = []
    for_each_directory(directories, lambda directory: seen.append(directory.path))
    assert seen == [each.path for each in directories]
