"""Logs that cannot be compacted, and the turns of the others."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.compaction.compaction_scheduler import CompactionScheduler
from headrace.log.compaction.compactor import Compactor
from headrace.log.log_directory import LogDirectory
from headrace.log.offset_checkpoint import CLEANER_NAME
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import (
    CompactionStopped,
    CorruptLog,
    DiskFull,
    HeadraceError,
    LogClosed,
    StorageError,
    UncleanableLog,
)
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch

CONFIG = LogConfig(cleanup_policy=("compact",))
CLOCK = ManualClock()
TOPICS = ("first", "second", "third")


def open_directory(path: str, disk: CrashDisk) -> LogDirectory:
    """Open a directory with three logs that are worth compacting, the first the most."""
    directory = LogDirectory.open(
        Path(path), configs=lambda _: CONFIG, filesystem=disk, clock=CLOCK, background=False
    )
    for topic in TOPICS:
        log = directory.create(TopicPartition(topic, 0))
        for number in range(5):
            log.append(keyed_batch([KeyedRecord(b"k", b"%d" % number)]), 0, from_client=False)
        log.set_high_watermark(5)
        log.roll()
    return directory


@pytest.fixture
def directory() -> LogDirectory:
    return open_directory("/logs", CrashDisk())


def is_compacted(log: PartitionLog) -> bool:
    return len(log.read(0, 1 << 20).read()) < 5 * len(keyed_batch([KeyedRecord(b"k", b"0")]))


def compacted(directory: LogDirectory) -> list[str]:
    return sorted(log.partition.topic for log in directory.open_logs() if is_compacted(log))


def run(directory: LogDirectory, *, until: Callable[[], bool] = lambda: False) -> None:
    scheduler = CompactionScheduler(directory.storage, directory.path, directory.open_logs)
    scheduler.run(Compactor(CLOCK, memory_bytes=1 << 16), until)


@pytest.mark.parametrize(
    "error",
    [
        CompactionStopped("the disk is too full"),
        DiskFull("no room"),
        LogClosed("deleted"),
        StorageError("would grow past 2 GiB"),
        UncleanableLog("do not parse"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_log_whose_round_fails_takes_no_turn_from_the_others(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch, error: HeadraceError
) -> None:
    tried: list[str] = []
    real = Compactor.clean

    def clean(compactor: Compactor, log: PartitionLog, *values: object, **named: object) -> object:
        tried.append(log.partition.topic)
        if log.partition.topic == tried[0]:
            raise error
        return real(compactor, log, *values, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Compactor, "clean", clean)

    run(directory)

    assert sorted(tried) == sorted(TOPICS)
    assert compacted(directory) == sorted(tried[1:])


def _writes_first(call: Call) -> bool:
    path = call.path
    return call.name == "pwritev" and "first-0" in path.parts and path.suffix == ".cleaned"


def test_it_has_its_turn_again_in_the_next_run(directory: LogDirectory) -> None:
    disk = directory.storage.filesystem
    assert isinstance(disk, CrashDisk)
    disk.inject(Fault(errno.ENOSPC, _writes_first, times=None))
    run(directory)
    assert compacted(directory) == ["second", "third"]

    disk.faults.clear()
    run(directory)

    assert compacted(directory) == sorted(TOPICS)


def test_a_run_ends_when_it_is_to_stop(directory: LogDirectory) -> None:
    run(directory, until=lambda: len(compacted(directory)) == 1)
    assert len(compacted(directory)) == 1


def test_a_directory_that_went_offline_ends_the_run(directory: LogDirectory) -> None:
    disk = directory.storage.filesystem
    assert isinstance(disk, CrashDisk)
    disk.inject(Fault(when=lambda call: call.path.name.endswith(".cleaned")))

    with pytest.raises(StorageError):
        run(directory)

    assert directory.offline is not None


def test_a_damaged_checkpoint_ends_the_run(directory: LogDirectory) -> None:
    directory.storage.filesystem.write_atomically(directory.path / CLEANER_NAME, b"nonsense\n")

    with pytest.raises(CorruptLog):
        run(directory)

    assert directory.offline is None
