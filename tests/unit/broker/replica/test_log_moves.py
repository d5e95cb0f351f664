"""Logs that move between the directories of a broker: what begins, ends and survives a move."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from uuid import UUID

import pytest

from headrace.broker.operation.compaction_worker import CompactionWorker
from headrace.broker.replica.log_moves import LogMoves
from headrace.broker.replica.log_storage import LogStorage
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.log.file_pool import FilePool
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import LogMove
from headrace.log.partition.log_state import LogState
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import SystemClock
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId, TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import Batch, iter_batches
from headrace.testing.readiness import wait_until
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)
ME = BrokerId(0)
A, B, C = Path("/a"), Path("/b"), Path("/c")
CONFIG = LogConfig(segment_bytes=2000, file_delete_delay_ms=0)


class Disks:
    """Three log directories of a broker on a disk in memory, opened again and again."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.record = TopicRecord(
            name="clicks", topic_id=random_topic_id(), partitions=(PartitionRecord.on((ME,)),)
        )
        self.storage = self.open()
        self.storage.choose(CLICKS, self.directory(A))
        self.storage.make(self.record)
        self.log = self.log_of_clicks()
        for number in range(40):
            self.append(number)

    def open(self) -> LogStorage:
        worker = CompactionWorker(SystemClock(), memory_bytes=1 << 20, bytes_per_second=1e9)
        self.storage = LogStorage(ME, worker)
        files = FilePool(self.disk)
        for path in (A, B, C):
            self.storage.add(
                LogDirectory.open(
                    path,
                    cluster_id="t",
                    filesystem=self.disk,
                    files=files,
                    configs=lambda topic: CONFIG,
                    background=False,
                )
            )
        return self.storage

    def restart(self) -> None:
        self.storage.moves.stop()
        for directory in self.storage.directories:
            directory.close()
        self.open().set_strays_aside({"clicks": self.record})

    def directory(self, path: Path) -> LogDirectory:
        return next(each for each in self.storage.directories if each.path == path)

    def log_of_clicks(self) -> PartitionLog:
        log = self.storage.log_of(CLICKS, self.record.topic_id)
        assert log is not None
        return log

    def append(self, number: int) -> None:
        self.log.append(sample_batch(b"%06d" % number + b"x" * 100), 0)
        self.log.set_high_watermark(self.log.log_end_offset)

    def move(self, target: Path) -> bool:
        return self.storage.move(CLICKS, self.record.topic_id, self.directory(target))

    def hold(self) -> None:
        """Let copying take for ever: a few bytes per second."""
        self.storage.moves.configure(threads=1, bytes_per_second=1)

    def home(self) -> Path | None:
        return next((each.path for each in self.storage.directories if CLICKS in each), None)

    def futures(self) -> list[str]:
        return [
            f"{path.name}/{name}"
            for path in (A, B, C)
            for name in self.disk.list(path)
            if name.endswith("-future")
        ]

    def moving(self) -> bool:
        return any(self.storage.moves.of(each) for each in self.storage.directories)

    def wait(self) -> None:
        wait_until(lambda: not self.moving(), what="the end of the move")

    def copied_bytes(self, target: Path) -> int:
        return self.storage.moves.of(self.directory(target))[0].size_bytes

    def batches(self) -> list[bytes]:
        log, found = self.log_of_clicks(), []
        at = int(log.log_start_offset)
        while at < log.log_end_offset:
            piece = log.read(at, 1 << 20)
            assert piece.file is not None
            data = piece.file.pread(piece.size, piece.position)
            for batch in iter_batches(data):
                found.append(bytes(batch.buffer[batch.position : batch.end]))
                at = batch.next_offset
        return found

    def values(self) -> list[int]:
        return [Batch(data).base_offset for data in self.batches()]


@pytest.fixture
def disks() -> Iterator[Disks]:
    disks = Disks()
    yield disks
    disks.storage.moves.stop()


def test_a_log_moves_and_is_used_meanwhile(disks: Disks) -> None:
    assert disks.move(B)
    for number in range(40, 80):
        disks.append(number)
    disks.wait()

    assert disks.home() == B
    assert disks.log_of_clicks() is disks.log
    assert disks.log.path == B / "clicks-0"
    disks.append(80)
    assert disks.values() == list(range(81))
    disks.directory(A).remove_deleted()
    assert not [name for name in disks.disk.list(A) if name.startswith("clicks")]
    assert not disks.disk.exists(B / "clicks-0" / "unfinished-move")

    disks.restart()
    assert disks.home() == B
    assert disks.values() == list(range(81))


def test_a_move_shows_its_size_and_lag(disks: Disks) -> None:
    disks.hold()
    disks.move(B)
    wait_until(lambda: disks.copied_bytes(B) > 0, what="a copy")

    (move,) = disks.storage.moves.of(disks.directory(B))

    assert 0 < move.size_bytes < disks.log.size_bytes
    assert 0 < move.lag < 40
    assert not disks.storage.moves.of(disks.directory(A))


def test_a_request_for_the_present_directory_cancels(disks: Disks) -> None:
    disks.hold()
    disks.move(B)

    assert disks.move(A)

    assert not disks.moving()
    assert not disks.futures()
    assert disks.home() == A


def test_a_request_for_another_directory_changes_the_target(disks: Disks) -> None:
    disks.hold()
    disks.move(B)
    disks.move(C)
    assert [name.split("/")[0] for name in disks.futures()] == ["c"]

    disks.storage.moves.configure(threads=2, bytes_per_second=0)
    disks.move(A)
    disks.move(C)
    disks.wait()

    assert disks.home() == C
    assert not disks.futures()


def test_a_deleted_log_takes_its_copy_along(disks: Disks) -> None:
    disks.hold()
    disks.move(B)

    disks.storage.delete([(CLICKS, disks.record.topic_id)])

    assert disks.home() is None
    assert not disks.moving()
    assert not disks.futures()


def test_a_log_that_does_not_exist_yet_is_made_where_it_was_chosen(disks: Disks) -> None:
    later = TopicRecord(
        name="later", topic_id=random_topic_id(), partitions=(PartitionRecord.on((ME,)),)
    )
    name = TopicPartition("later", 0)

    assert not disks.storage.move(name, later.topic_id, disks.directory(C))
    disks.storage.make(later)

    assert name in disks.directory(C)


def test_a_restart_begins_the_move_again(disks: Disks) -> None:
    disks.hold()
    disks.move(B)
    wait_until(lambda: disks.copied_bytes(B) > 0, what="a copy")

    disks.restart()
    disks.wait()

    assert disks.home() == B
    assert not disks.futures()
    assert disks.values() == list(range(40))


def test_a_restart_removes_the_copy_of_a_log_that_is_gone(disks: Disks) -> None:
    disks.hold()
    disks.move(B)
    disks.record = TopicRecord(
        name="clicks", topic_id=UUID(int=9), partitions=(PartitionRecord.on((ME,)),)
    )

    disks.restart()

    assert not disks.moving()
    assert not disks.futures()


@pytest.mark.parametrize("change", ["truncate", "delete records", "retention", "start over"])
def test_what_changes_the_log_reaches_the_copy(disks: Disks, change: str) -> None:
    log = disks.log
    disks.hold()
    disks.move(B)
    (move,) = disks.storage.moves.of(disks.directory(B))
    wait_until(lambda: move.copy(1 << 20) == 0, what="a whole copy")

    if change == "truncate":
        log.truncate_to(25)
        for number in range(100, 140):
            disks.append(number)
    elif change == "delete records":
        log.delete_records(21)
    elif change == "retention":
        log.delete_records(30)
        log.apply_retention()
        log.remove_deleted()
    else:
        log.truncate_fully_and_start_at(500)
    expected = disks.batches()
    start = log.log_start_offset
    disks.storage.moves.configure(threads=1, bytes_per_second=0)
    disks.wait()

    assert disks.home() == B
    assert disks.batches() == expected
    disks.restart()
    assert disks.batches() == expected
    assert disks.log_of_clicks().log_start_offset == start


def _below(path: Path, calls: tuple[str, ...] = ("pwritev", "create")) -> Callable[[Call], bool]:
    return lambda call: path in call.path.parents and call.name in calls


# What fails, with which error, and: which directory is offline, where the log is at the end.
FAULTS = {
    "the target fails": (B, errno.EIO, B, A),
    "the target is full": (B, errno.ENOSPC, None, B),
    "the target's quota is used up": (B, errno.EDQUOT, None, B),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_disk_that_refuses(disks: Disks, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.replica.log_moves._FULL_DISK_SECONDS", 0.01)
    path, error, offline, home = FAULTS[fault]
    disks.hold()
    disks.move(B)
    injected = disks.disk.inject(Fault(error, _below(path), times=3))
    disks.storage.moves.configure(threads=1, bytes_per_second=0)

    disks.append(40)
    disks.wait()

    assert [each.path for each in disks.storage.offline] == [each for each in [offline] if each]
    assert disks.home() == home
    disks.append(41)
    assert disks.values() == list(range(42))
    assert injected.times < 3


def test_a_move_out_of_a_full_directory(disks: Disks) -> None:
    """Often the very reason for the move: nothing can be rolled or flushed there."""
    disks.disk.inject(Fault(errno.ENOSPC, _below(A / "clicks-0"), times=1 << 30))

    disks.move(B)
    disks.wait()

    assert disks.home() == B
    disks.append(40)
    assert disks.values() == list(range(41))
    assert not disks.storage.offline


def test_a_source_that_fails_ends_the_move(disks: Disks) -> None:
    disks.hold()
    disks.move(B)
    disks.directory(A).storage.fail(StorageError("the disk is gone"))
    disks.storage.moves.configure(threads=1, bytes_per_second=0)

    disks.wait()

    assert disks.home() == A
    assert not disks.futures()
    assert disks.directory(B).offline is None


def test_no_move_begins_while_a_log_is_deleted(disks: Disks) -> None:
    with disks.storage.moves.forbidden(CLICKS):
        disks.move(B)

        assert not disks.moving()
        assert not disks.futures()


@pytest.mark.parametrize("offline", [A, B])
def test_an_offline_directory_is_refused(disks: Disks, offline: Path) -> None:
    disks.directory(offline).storage.fail(StorageError("the disk is gone"))

    with pytest.raises(StorageError):
        disks.move(B)

    assert not disks.moving()


def test_appends_during_the_exchange_are_in_the_copy(
    disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    promote = LogMove.promote
    appended: list[int] = []

    def append_and_promote(move: LogMove, **offsets: int) -> Path:
        appended.append(disks.log.log_end_offset)
        disks.append(0)
        return promote(move, **offsets)

    monkeypatch.setattr(LogMove, "promote", append_and_promote)

    disks.move(B)
    disks.wait()

    assert disks.home() == B
    assert appended
    assert disks.values() == list(range(40 + len(appended)))


def test_the_log_that_reaches_further_goes_on_after_a_crash_between_the_renames(
    disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object, **__: object) -> None:
        raise StorageError("the power goes here")

    with monkeypatch.context() as patched:
        patched.setattr(LogState, "move", cut_off)
        patched.setattr(LogMove, "demote", lambda move: move._path)
        disks.move(B)
        disks.wait()
    assert CLICKS not in disks.directory(B)
    disks.append(40)
    disks.log.sync()
    disks.storage.moves.stop()
    disks.disk.crash(Random(1))

    disks.open().set_strays_aside({"clicks": disks.record})
    disks.wait()

    log = disks.log_of_clicks()
    log.set_high_watermark(log.log_end_offset)
    assert disks.values() == list(range(41))
    assert disks.home() == B, "and the move is begun again"


def test_a_look_for_a_log_that_moves_finds_it(disks: Disks) -> None:
    """A log must never seem to be missing: a second one would be made in its place."""
    stop = Event()
    targets = [B, A] * 10

    def lacking() -> bool:
        return (
            disks.storage.lacks(disks.record)
            or disks.storage.log_of(CLICKS, disks.record.topic_id) is not disks.log
        )

    with in_thread(lacking, stop) as missed:
        for target in targets:
            disks.move(target)
            disks.wait()
    assert not missed


@contextmanager
def in_thread(look: Callable[[], bool], stop: Event) -> Iterator[list[bool]]:
    found: list[bool] = []

    def run() -> None:
        while not stop.is_set():
            if look():
                found.append(True)

    thread = Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


class NoCompaction:
    @contextmanager
    def moving(self, *_: object) -> Iterator[None]:
        yield


def test_copying_keeps_to_its_rate(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = LogMoves(NoCompaction())
    waited: list[float] = []
    monkeypatch.setattr("headrace.broker.replica.log_moves.time.monotonic", lambda: sum(waited))
    monkeypatch.setattr(moves._changed, "wait", waited.append)
    moves.configure(threads=1, bytes_per_second=1_000_000)
    move = LogMove(disks.directory(A), disks.directory(B), disks.log)

    for _ in range(30):
        moves._pay(moves._chunk_bytes(), move)

    assert moves._chunk_bytes() == 100_000
    assert sum(waited) == pytest.approx(3.0)
