"""The copy of a log in another directory, when the log changes at the worst moment."""

import errno
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headrace.cluster.topic import random_topic_id
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import LogMove
from headrace.log.partition import log_state
from headrace.log.partition.log_mirror import LogMirror
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import DiskFull, StorageError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import iter_batches
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)
A, B = Path("/a"), Path("/b")
KIB = 1024


class Moving:
    """A log in one directory, and its move to another one."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.source, self.target = self._open(A), self._open(B)
        self.log = self.source.create(CLICKS, random_topic_id())
        self.move = LogMove(self.source, self.target, self.log)

    def _open(self, path: Path) -> LogDirectory:
        return LogDirectory.open(
            path,
            cluster_id="t",
            filesystem=self.disk,
            configs=lambda topic: LogConfig(),
            background=False,
        )

    def append(self, count: int, *, size: int = 1000, tag: bytes = b"", epoch: int = 0) -> None:
        for number in range(count):
            self.log.append(sample_batch(b"%s%06d" % (tag, number) + b"x" * size), epoch)
        self.log.set_high_watermark(self.log.log_end_offset)

    def copy_all(self) -> None:
        while self.move.copy(1 << 20):
            pass

    def holds_lock(self) -> bool:
        """Return whether this thread keeps appends off the log."""
        free: list[bool] = []

        def look() -> None:
            free.append(self.log._state.lock.acquire(blocking=False))
            if free[0]:
                self.log._state.lock.release()

        other = Thread(target=look)
        other.start()
        other.join()
        return not free[0]

    def batches(self) -> list[bytes]:
        found, at = [], int(self.log.log_start_offset)
        while at < self.log.log_end_offset:
            piece = self.log.read(at, 1 << 20)
            assert piece.file is not None
            data = piece.file.pread(piece.size, piece.position)
            batches = list(iter_batches(data))
            assert batches, f"nothing to read at {at}"
            for batch in batches:
                found.append(bytes(batch.buffer[batch.position : batch.end]))
                at = batch.next_offset
        return found


@pytest.fixture
def moving() -> Iterator[Moving]:
    moving = Moving()
    yield moving
    moving.source.close()
    moving.target.close()


def test_a_copier_beside_a_truncation_keeps_nothing_that_is_cut(moving: Moving) -> None:
    moving.append(150, size=10_000, tag=b"old")
    moving.move.begin()
    moving.copy_all()
    copiers: list[Thread] = []

    def copy_meanwhile(*_: object) -> None:
        copier = Thread(target=moving.move.copy, args=(1,))
        copiers.append(copier)
        copier.start()
        copier.join(timeout=0.2)  # it may wait for the truncation

    moving.source.storage.on_truncation(copy_meanwhile)
    moving.log.truncate_to(20)
    for copier in copiers:
        copier.join()
    moving.append(200, size=7000, tag=b"new", epoch=1)
    moving.copy_all()
    expected = moving.batches()

    assert copiers
    assert moving.move.exchange()
    assert moving.batches() == expected


def test_what_is_cut_does_not_count_as_copied(moving: Moving) -> None:
    moving.append(300)
    moving.move.begin()
    moving.copy_all()

    moving.log.truncate_to(200)

    assert moving.move.behind_bytes == moving.log.size_bytes


def test_a_disk_that_is_full_in_the_exchange_leaves_no_hole_in_the_copy(moving: Moving) -> None:
    moving.append(300)
    moving.move.begin()
    moving.copy_all()
    name = "00000000000000000000.log"
    moving.disk.inject(
        Fault(
            errno.ENOSPC,
            lambda call: (
                call.name == "create" and call.path.name == name and B in call.path.parents
            ),
        )
    )

    with pytest.raises(DiskFull):
        moving.move.exchange()
    moving.log.roll()
    moving.append(10)
    expected = moving.batches()

    assert moving.move.exchange()
    assert moving.batches() == expected


@pytest.mark.parametrize("step", ["SegmentList", "Tip", "SnapshotFiles"])
def test_a_reader_beside_the_exchange_finds_its_records(
    moving: Moving, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At each step between the former files and the copies: a reader waits for no lock."""
    moving.append(30)
    moving.log.roll()
    moving.append(30)
    moving.move.begin()
    moving.copy_all()
    made = getattr(log_state, step)
    found: list[object] = []

    def read() -> None:
        for offset in (0, 59):
            try:
                found.append(moving.log.read(offset, 1000).first_offset)
            except StorageError as error:
                found.append(error)

    def read_and_make(*args: object) -> object:
        reader = Thread(target=read)
        reader.start()
        reader.join()
        return made(*args)

    monkeypatch.setattr(log_state, step, read_and_make)

    assert moving.move.exchange()
    assert found == [0, 59]
    assert moving.source.offline is None
    assert moving.target.offline is None


def test_an_error_of_the_former_directory_is_not_laid_to_the_new_one(moving: Moving) -> None:
    moving.append(30)
    moving.move.begin()
    moving.copy_all()
    failing = Fault(errno.EIO, lambda call: call.name == "pread" and A in call.path.parents)

    def look() -> LogSlice:
        piece = moving.log.read(0, 1000)
        assert piece.file is not None
        if moving.move.exchange() and A in piece.file.path.parents:
            moving.disk.inject(failing)
        piece.file.pread(piece.size, piece.position)
        return piece

    assert moving.log._reader.retrying(look).first_offset == 0
    assert failing.times == 0
    assert moving.target.offline is None


@pytest.mark.parametrize("size", [100 * KIB, 3000 * KIB])
def test_a_log_that_grows_while_the_disk_works_ends_its_move(
    moving: Moving, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    promote = LogMove.promote
    promoted: list[LogMove] = []

    def append_and_promote(move: LogMove, **offsets: int) -> Path:
        promoted.append(move)
        moving.append(size // (50 * KIB), size=50 * KIB)
        return promote(move, **offsets)

    monkeypatch.setattr(LogMove, "promote", append_and_promote)
    moving.append(30, size=50 * KIB)
    moving.move.begin()
    moving.copy_all()

    assert moving.move.exchange()
    assert len(promoted) == 1, "and is renamed once"
    assert len(moving.log.segments) == 2, "and is rolled once"
    assert len(moving.batches()) == 30 + size // (50 * KIB)


def test_a_log_that_always_grows_ends_its_move(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that its end is copied, another 300 KiB have come."""
    note = LogMirror._note
    locked = 0

    def note_and_append(mirror: LogMirror, *args: Any) -> None:
        nonlocal locked
        note(mirror, *args)
        if moving.holds_lock():
            locked += 1
        else:
            moving.append(6, size=50 * KIB)

    monkeypatch.setattr(LogMirror, "_note", note_and_append)
    moving.append(3)
    moving.move.begin()
    moving.copy_all()

    assert moving.move.exchange()
    assert locked == 1
    assert len(moving.batches()) == moving.log.log_end_offset


def test_tries_without_end_do_not_leave_small_segments(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogMirror, "_try_exchange", lambda *_: ())
    moving.append(3)
    moving.move.begin()

    for _ in range(6):
        moving.append(40, size=50 * KIB)
        moving.copy_all()
        assert not moving.move.exchange()

    assert len(moving.log.segments) == 3
    monkeypatch.undo()
    assert moving.move.exchange()
    assert len(moving.batches()) == 243
