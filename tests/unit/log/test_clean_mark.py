"""Whether a directory is marked clean, and whom a start believes that."""

import errno
from pathlib import Path
from random import Random

import pytest

from headrace.log.clean_mark import CLEAN_SHUTDOWN_NAME, CleanMark
from headrace.log.log_directory import LogDirectory
from headrace.model.error import DiskFull
from headrace.model.ids import TopicPartition
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.crash_node import Loss
from testkit.fault.disk_fault import Call, Fault
from testkit.sample.batch import sample_batch
from testkit.sample.filled_log import fill

DATA = Path("/data")
CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 0)
TORN = sample_batch(b"torn", base_offset=3, leader_epoch=0)[:40]


@pytest.fixture
def disk() -> CrashDisk:
    disk = CrashDisk()
    disk.make_directory(DATA)
    return disk


def open_directory(disk: CrashDisk) -> LogDirectory:
    return LogDirectory.open(DATA, filesystem=disk, background=False)


def is_marked(disk: CrashDisk) -> bool:
    return disk.exists(DATA / CLEAN_SHUTDOWN_NAME)


def full(disk: CrashDisk, *names: str) -> None:
    """Let the disk have no room for files of the clicks."""

    def when(call: Call) -> bool:
        return call.name in names and call.path.parent.name == str(CLICKS)

    disk.inject(Fault(errno.ENOSPC, when, times=None))


def crash_with_a_torn_log(disk: CrashDisk) -> None:
    """Leave a log with a torn tail, whose first segment needs a new index, beside a whole one."""
    directory = open_directory(disk)
    fill(directory.create(VIEWS), 1)
    log = directory.create(CLICKS)
    fill(log, 1)
    log.roll()
    log.flush()
    directory.checkpoint()
    fill(log, 2)
    first, last = log.segments
    file = disk.open(last.path)
    file.pwritev([TORN], last.size_bytes)
    disk.remove(first.offset_index.path)
    disk.sync_all()
    disk.crash(Random(1), loss=Loss.EVERYTHING, chaos=False)


def test_a_directory_is_not_marked_while_a_log_in_it_needs_recovery(disk: CrashDisk) -> None:
    crash_with_a_torn_log(disk)
    full(disk, "create")
    directory = open_directory(disk)
    assert not directory.is_open(CLICKS)

    directory.close()

    assert not is_marked(disk)
    disk.faults.clear()
    again = open_directory(disk)
    assert again.get(CLICKS).log_end_offset == 3
    assert again.offline is None


def test_it_is_marked_when_the_log_was_recovered_later(disk: CrashDisk) -> None:
    crash_with_a_torn_log(disk)
    full(disk, "create")
    directory = open_directory(disk)
    disk.faults.clear()
    directory.get(CLICKS)

    directory.close()

    assert is_marked(disk)


def test_it_is_marked_when_the_log_was_deleted_instead(disk: CrashDisk) -> None:
    crash_with_a_torn_log(disk)
    full(disk, "create")
    directory = open_directory(disk)
    disk.faults.clear()
    directory.delete(CLICKS)

    directory.close()

    assert is_marked(disk)


def test_it_is_marked_though_a_log_was_not_opened_since_a_clean_start(disk: CrashDisk) -> None:
    directory = open_directory(disk)
    fill(directory.create(CLICKS), 2)
    directory.close()

    open_directory(disk).close()

    assert is_marked(disk)


def test_a_log_that_was_to_be_deleted_and_kept_its_name_was_not_closed(disk: CrashDisk) -> None:
    directory = open_directory(disk)
    fill(directory.create(CLICKS), 2)
    fill(directory.create(VIEWS), 2)
    disk.inject(
        Fault(errno.ENOSPC, lambda call: call.name == "replace" and call.path.name == str(CLICKS))
    )
    with pytest.raises(DiskFull):
        directory.delete(CLICKS)

    directory.close()

    assert not is_marked(disk)
    assert open_directory(disk).get(CLICKS).log_end_offset == 2


def test_what_a_mark_speaks_for(disk: CrashDisk) -> None:
    mark = CleanMark(disk, DATA)
    assert not mark.take([CLICKS])
    assert (mark.speaks_for(CLICKS), mark.speaks_for(VIEWS)) == (False, True)

    mark.trust(CLICKS)
    mark.write()
    assert is_marked(disk)

    again = CleanMark(disk, DATA)
    assert again.take([CLICKS])
    assert again.speaks_for(CLICKS)
    assert not is_marked(disk)
    again.doubt([CLICKS])
    again.write()
    assert not is_marked(disk)
