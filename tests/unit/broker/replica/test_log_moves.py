"""Logs that move between the directories of a broker: what begins, ends and survives a move."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from uuid import UUID

import pytest

from headrace.broker.replica.log_moves import LogMoves
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.log.log_move import LogMove
from headrace.log.partition.log_state import LogState
from headrace.model.error import DiskFull, StorageError
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from testkit.fault.disk_fault import Call, Fault
from testkit.simulation.log_disks import CLICKS, ME, A, B, C
from testkit.simulation.log_disks import LogDisks as Disks


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


@pytest.mark.parametrize("written", ["partition.metadata", "unfinished-move"])
def test_a_target_without_room_to_begin_keeps_nothing(disks: Disks, written: str) -> None:
    disks.disk.inject(Fault(errno.ENOSPC, lambda call: written in call.path.name))

    with pytest.raises(DiskFull):
        disks.move(B)

    assert not disks.moving()
    assert not disks.futures()


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


@pytest.mark.parametrize("target", [A, C])
def test_a_request_during_the_exchange_of_another(
    disks: Disks, monkeypatch: pytest.MonkeyPatch, target: Path
) -> None:
    """It ends the first move, which cannot be ended any more: the log lies in its target then."""
    directory = disks.directory(B)
    expect = directory.expect
    second = Thread(target=disks.move, args=[target])

    def expect_slowly(partition: TopicPartition, **offsets: int) -> None:
        (move,) = disks.storage.moves.of(directory)
        second.start()
        wait_until(lambda: move.cancelled, what="the second request")
        expect(partition, **offsets)

    with monkeypatch.context() as patched:
        patched.setattr(directory, "expect", expect_slowly)
        disks.move(B)
        disks.wait()
    second.join()
    disks.wait()

    assert [each.path for each in disks.storage.directories if CLICKS in each] == [target]
    assert disks.directory(target).topic_id(CLICKS) == disks.record.topic_id
    assert disks.log.path == target / "clicks-0"
    disks.storage.delete([(CLICKS, disks.record.topic_id)])
    assert not disks.disk.exists(target / "clicks-0")


def test_a_log_that_moves_between_the_look_for_it_and_the_request(
    disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = LogMove.begin

    def move_and_begin(move: LogMove) -> None:
        monkeypatch.setattr(LogMove, "begin", begin)
        disks.move(B)
        disks.wait()
        begin(move)

    monkeypatch.setattr(LogMove, "begin", move_and_begin)

    disks.move(C)
    disks.wait()

    assert [each.path for each in disks.storage.directories if CLICKS in each] == [C]
    assert disks.directory(C).topic_id(CLICKS) == disks.record.topic_id
    assert not disks.futures()


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
