"""Logs that cannot be compacted, and the turns of the others."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.log.compaction.cleanable_range import CleanableRange
from headrace.log.compaction.compaction_scheduler import CompactionScheduler
from headrace.log.compaction.compactor import Compactor
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import LogMove
from headrace.log.offset_checkpoint import CLEANER_NAME
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import (
    CompactionStopped,
    CorruptBatch,
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
CLOCK = ManualClock(1_700_000_001_000)  # a second after the records
RESERVED_BYTES = 64 * 1024 * 1024
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


def disk_of(directory: LogDirectory) -> CrashDisk:
    disk = directory.storage.filesystem
    assert isinstance(disk, CrashDisk)
    return disk


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


def refuse_all(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let no log have room; return the topics that are tried."""
    tried: list[str] = []

    def clean(compactor: Compactor, log: PartitionLog, *_: object, **named: object) -> object:
        tried.append(log.partition.topic)
        raise DiskFull("no room")

    monkeypatch.setattr(Compactor, "clean", clean)
    return tried


def test_logs_that_are_refused_do_not_make_the_run_look_at_all_logs_again(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = refuse_all(monkeypatch)
    looks: list[str] = []
    real = CompactionScheduler.cleanable

    def cleanable(scheduler: CompactionScheduler, log: PartitionLog) -> CleanableRange:
        looks.append(log.partition.topic)
        return real(scheduler, log)

    monkeypatch.setattr(CompactionScheduler, "cleanable", cleanable)

    run(directory)

    assert sorted(tried) == sorted(TOPICS)
    assert sorted(looks) == sorted(TOPICS * 2)  # all of them, and each at its turn


def test_a_run_ends_when_the_disk_has_no_room_for_any_log(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = refuse_all(monkeypatch)
    disk_of(directory).free = RESERVED_BYTES - 1

    run(directory)

    assert len(tried) == 1


def delete(directory: LogDirectory, log: PartitionLog) -> None:
    directory.delete(log.partition)


def move_away(directory: LogDirectory, log: PartitionLog) -> None:
    path = directory.path.parent / f"other-{log.partition.topic}"
    target = LogDirectory.open(
        path,
        cluster_id=directory.meta.cluster_id,
        configs=lambda _: CONFIG,
        filesystem=disk_of(directory),
        background=False,
    )
    move = LogMove(directory, target, log)
    move.begin()
    while move.copy(1 << 20):
        pass
    assert move.exchange()


@pytest.mark.parametrize("leave", [delete, move_away])
def test_a_log_that_left_before_its_turn_is_passed_over(
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
    leave: Callable[[LogDirectory, PartitionLog], None],
) -> None:
    tried: list[str] = []
    real = Compactor.clean

    def clean(compactor: Compactor, log: PartitionLog, *values: object, **named: object) -> object:
        if not tried:
            for other in directory.open_logs():
                if other is not log:
                    leave(directory, other)
        tried.append(log.partition.topic)
        return real(compactor, log, *values, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Compactor, "clean", clean)

    run(directory)

    assert len(tried) == 1
    assert compacted(directory) == tried


@pytest.mark.parametrize("error", [LogClosed("deleted"), CorruptBatch("a head does not parse")])
def test_a_log_that_cannot_be_judged_takes_no_turn_from_the_others(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch, error: HeadraceError
) -> None:
    real = CompactionScheduler.cleanable

    def cleanable(scheduler: CompactionScheduler, log: PartitionLog) -> CleanableRange:
        if log.partition.topic == "first":
            raise error
        return real(scheduler, log)

    monkeypatch.setattr(CompactionScheduler, "cleanable", cleanable)

    run(directory)

    assert compacted(directory) == ["second", "third"]


def opened_again(directory: LogDirectory, config: LogConfig) -> LogDirectory:
    """Open the directory with logs of which nothing has been read yet."""
    directory.close()
    again = LogDirectory.open(
        directory.path,
        configs=lambda _: config,
        filesystem=disk_of(directory),
        clock=CLOCK,
        background=False,
    )
    again.open_all(again.partitions)
    return again


@pytest.mark.parametrize("min_lag_ms", [0, 1], ids=["no-lag", "lag"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_damaged_is_rebuilt(
    directory: LogDirectory, min_lag_ms: int, suffix: str
) -> None:
    again = opened_again(directory, replace(CONFIG, min_compaction_lag_ms=min_lag_ms))
    index = again.path / "first-0" / f"{0:020}{suffix}"
    again.storage.files.forget(index)
    disk_of(again).write_atomically(index, b"odd")

    run(again)

    assert compacted(again) == sorted(TOPICS)


def test_a_disk_that_fails_while_logs_are_judged_goes_offline(directory: LogDirectory) -> None:
    again = opened_again(directory, replace(CONFIG, min_compaction_lag_ms=1))
    disk_of(again).inject(Fault(when=lambda call: call.name == "pread", times=None))

    with pytest.raises(StorageError):
        run(again)

    assert again.offline is not None


def test_a_checkpoint_that_the_disk_does_not_give_takes_the_directory_offline(
    directory: LogDirectory,
) -> None:
    disk_of(directory).inject(Fault(when=lambda call: call.path.name == CLEANER_NAME))

    with pytest.raises(StorageError):
        run(directory)

    assert directory.offline is not None


def _writes_first(call: Call) -> bool:
    path = call.path
    return call.name == "pwritev" and "first-0" in path.parts and path.suffix == ".cleaned"


def test_it_has_its_turn_again_in_the_next_run(directory: LogDirectory) -> None:
    disk = disk_of(directory)
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
    disk_of(directory).inject(Fault(when=lambda call: call.path.name.endswith(".cleaned")))

    with pytest.raises(StorageError):
        run(directory)

    assert directory.offline is not None


def test_a_damaged_checkpoint_ends_the_run(directory: LogDirectory) -> None:
    directory.storage.filesystem.write_atomically(directory.path / CLEANER_NAME, b"nonsense\n")

    with pytest.raises(CorruptLog):
        run(directory)

    assert directory.offline is None
