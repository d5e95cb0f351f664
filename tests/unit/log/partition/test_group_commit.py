"""Group commit: one fsync for many requests."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event

import pytest

from headrace.log.partition.group_commit import GroupCommit
from headrace.log.partition.loader import load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.clock import ManualClock
from headrace.model.error import InvalidArgument, NotEnoughReplicasAfterAppend, StorageError
from headrace.model.ids import TopicPartition
from headrace.model.offset import Offset
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import sample_batch

_PATIENCE_S = 90


class SlowLog:
    """A log whose disk waits until the test lets it go on."""

    def __init__(self, *, free: bool = True) -> None:
        self.log_end_offset = 0
        self.syncs = 0
        self.failure: Exception | None = None
        self.entered = Event()
        self.gate = Event()
        if free:
            self.gate.set()

    def sync(self) -> Offset:
        end = self.log_end_offset
        self.entered.set()
        assert self.gate.wait(_PATIENCE_S)
        self.syncs += 1
        if self.failure is not None:
            raise self.failure
        return Offset(end)


@pytest.fixture
def commit() -> Iterator[GroupCommit]:
    commit = GroupCommit(workers=2)
    yield commit
    commit.close()


def test_a_request_is_done_after_a_sync(commit: GroupCommit) -> None:
    log = SlowLog()
    log.log_end_offset = 7

    assert commit.request(log, 7).result(_PATIENCE_S) == 7
    assert log.syncs == 1


def test_those_who_come_during_a_sync_share_the_next_one(commit: GroupCommit) -> None:
    log = SlowLog(free=False)
    log.log_end_offset = 1
    first = commit.request(log, 1)
    assert log.entered.wait(_PATIENCE_S)
    log.log_end_offset = 101
    others = [commit.request(log, offset) for offset in range(2, 102)]

    log.gate.set()

    assert first.result(_PATIENCE_S) == 1
    assert all(other.result(_PATIENCE_S) == 101 for other in others)
    assert log.syncs == 2


def test_a_request_cannot_be_taken_back(commit: GroupCommit) -> None:
    log = SlowLog(free=False)
    waiting = commit.request(log, 0)
    assert log.entered.wait(_PATIENCE_S)

    assert not waiting.cancel()

    log.gate.set()
    assert waiting.result(_PATIENCE_S) == 0


def test_a_slow_log_does_not_hold_up_another(commit: GroupCommit) -> None:
    slow, quick = SlowLog(free=False), SlowLog()
    waiting = commit.request(slow, 0)
    assert slow.entered.wait(_PATIENCE_S)

    assert commit.request(quick, 0).result(_PATIENCE_S) == 0
    assert not waiting.done()
    slow.gate.set()


def test_a_failed_sync_fails_everyone_in_its_round(commit: GroupCommit) -> None:
    log = SlowLog(free=False)
    log.failure = StorageError("the disk is gone")
    waiting = [commit.request(log, 0) for _ in range(3)]

    log.gate.set()

    for each in waiting:
        with pytest.raises(StorageError):
            each.result(_PATIENCE_S)


def test_a_request_for_truncated_records_fails(commit: GroupCommit) -> None:
    log = SlowLog()
    log.log_end_offset = 3
    with pytest.raises(NotEnoughReplicasAfterAppend):
        commit.request(log, 9).result(_PATIENCE_S)


def test_closing_serves_those_who_wait_and_refuses_others() -> None:
    commit = GroupCommit(workers=1)
    log = SlowLog(free=False)
    waiting = commit.request(log, 0)
    log.gate.set()

    commit.close()

    assert waiting.result(_PATIENCE_S) == 0
    with pytest.raises(InvalidArgument):
        commit.request(log, 0)


def test_no_request_is_lost_among_many_logs(commit: GroupCommit) -> None:
    logs = [SlowLog() for _ in range(5)]
    futures = []
    for offset in range(1, 200):
        for log in logs:
            log.log_end_offset = offset
            futures.append(commit.request(log, offset))

    for future in futures:
        future.result(_PATIENCE_S)
    assert sum(log.syncs for log in logs) == commit.rounds


def test_it_needs_a_worker() -> None:
    with pytest.raises(InvalidArgument):
        GroupCommit(workers=0)


def test_what_was_acknowledged_survives_a_crash(
    commit: GroupCommit, disk: CrashDisk, directory: Path
) -> None:
    def load() -> PartitionLog:
        storage = Storage(disk, ManualClock())
        config = LogConfig(segment_bytes=1024)
        return load_log(storage, TopicPartition("clicks", 0), directory, config)[0]

    log = load()
    acknowledged = 0
    for _ in range(40):
        appended = log.append(sample_batch(b"v" * 50), 0)
        acknowledged = commit.request(log, appended.last_offset + 1).result(_PATIENCE_S)
    log.append(sample_batch(b"not acknowledged"), 0)
    disk.crash(Random(4))

    assert load().log_end_offset >= acknowledged == 40
