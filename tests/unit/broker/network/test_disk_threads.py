"""Threads that wait for a disk: bounded, in order, apart from the event loop's own and from those
of other disks."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from headrace.broker.network import outbox
from headrace.broker.network.disk_threads import DiskThreads, ThreadsByDisk
from headrace.broker.network.outbox import Outbox
from headrace.broker.network.page_cache import WINDOW_BYTES
from headrace.log.filesystem import Disk
from headrace.log.partition.log_slice import LogSlice
from headrace.model.offset import Offset

_SECONDS = 60


class SlowDisk:
    """Reads that end when they may; it counts those that have begun."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self._begun = threading.Semaphore(0)

    def read(self, *_: object) -> None:
        self._begun.release()
        assert self.may_end.wait(_SECONDS)

    def wait_for_reads(self, count: int) -> None:
        for _ in range(count):
            assert self._begun.acquire(timeout=_SECONDS)

    def has_begun_another(self) -> bool:
        return self._begun.acquire(blocking=False)


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.may_end.set()


def wait_for(called: Callable[[Callable[[], object]], object]) -> None:
    """Call it with a function, and wait until that function is called."""
    done = threading.Event()
    called(done.set)
    assert done.wait(_SECONDS)


def test_no_more_threads_read_than_there_may_be_and_the_rest_waits(disk: SlowDisk) -> None:
    threads = DiskThreads(max_threads=2)
    ended = threading.Semaphore(0)

    for _ in range(5):
        threads.submit(disk.read, ended.release)
    disk.wait_for_reads(2)
    assert not disk.has_begun_another()

    disk.may_end.set()
    for _ in range(5):
        assert ended.acquire(timeout=_SECONDS)


def test_reads_are_served_in_the_order_in_which_they_came(disk: SlowDisk) -> None:
    threads = DiskThreads(max_threads=1)
    order: list[int] = []
    threads.submit(disk.read, lambda: None)
    for number in range(20):
        threads.submit(lambda number=number: order.append(number), lambda: None)

    disk.may_end.set()
    wait_for(lambda done: threads.submit(lambda: None, done))

    assert order == list(range(20))


def test_a_cancelled_read_is_never_made_and_one_that_has_begun_cannot_be_cancelled(
    disk: SlowDisk,
) -> None:
    threads = DiskThreads(max_threads=1)
    calls: list[str] = []
    begun = threads.submit(disk.read, lambda: None)
    waiting = threads.submit(lambda: calls.append("work"), lambda: calls.append("done"))
    disk.wait_for_reads(1)

    assert not threads.cancel(begun)
    assert threads.cancel(waiting)
    assert not threads.cancel(waiting)

    disk.may_end.set()
    wait_for(lambda done: threads.submit(lambda: None, done))
    assert calls == []


def test_a_hint_is_dropped_while_much_waits_and_a_read_is_not(disk: SlowDisk) -> None:
    threads = DiskThreads(max_threads=1, max_hints=2)
    threads.submit(disk.read, lambda: None)
    disk.wait_for_reads(1)

    assert [threads.submit_hint(lambda: None) for _ in range(4)] == [True, True, False, False]

    disk.may_end.set()
    wait_for(lambda done: threads.submit(lambda: None, done))
    assert threads.submit_hint(lambda: None)


def test_a_read_that_raises_is_reported_as_done_and_those_behind_it_have_a_thread(
    disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: SimpleQueue[threading.ExceptHookArgs] = SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", reported.put)
    threads = DiskThreads(max_threads=1)
    failed, done = threading.Event(), threading.Event()

    def fail() -> None:
        disk.read()
        raise ValueError("no such disk")

    threads.submit(fail, failed.set)
    disk.wait_for_reads(1)
    threads.submit(lambda: None, done.set)  # waits behind it, and no later one wakes it
    disk.may_end.set()

    assert failed.wait(_SECONDS)
    assert done.wait(_SECONDS)
    assert str(reported.get(timeout=_SECONDS).exc_value) == "no such disk"


def test_without_any_thread_a_read_is_refused_and_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = DiskThreads()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no thread to read from the disk"):
            threads.submit(lambda: None, lambda: None)

    wait_for(lambda done: threads.submit(lambda: None, done))


# -- connections and the event loop


def cold_outboxes(
    count: int, path: Path, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[Outbox, socket.socket, socket.socket]]:
    """Connections whose answers lie on a slow disk; the first `max_threads` of them are read."""
    monkeypatch.setattr(outbox, "_threads_by_disk", ThreadsByDisk(max_threads=2))
    monkeypatch.setattr(outbox, "is_cached", lambda piece: False)
    monkeypatch.setattr(outbox, "read_ahead", disk.read)
    path.write_bytes(bytes(WINDOW_BYTES))
    loop = asyncio.get_running_loop()
    made = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        box = Outbox(ours, loop, lambda: None)
        file = Disk().open(path, read_only=True)
        box.write([LogSlice(file, 0, WINDOW_BYTES, Offset(0), Offset(1))])
        assert box.reading_ahead
        made.append((box, ours, theirs))
    return made


def test_a_name_is_looked_up_while_every_cold_read_waits_for_the_disk(
    tmp_path: Path, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        boxes = cold_outboxes(8, tmp_path / "segment", disk, monkeypatch)
        try:
            async with asyncio.timeout(_SECONDS / 2):
                await asyncio.to_thread(disk.wait_for_reads, 2)
                assert await loop.getaddrinfo("localhost", 9092)
        finally:
            disk.may_end.set()
            for _, ours, theirs in boxes:
                ours.close()
                theirs.close()

    asyncio.run(scenario())


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A file in memory, which no disk of this machine has to do with."""
    descriptor = os.memfd_create("segment")
    os.truncate(descriptor, WINDOW_BYTES)
    yield Path(f"/proc/self/fd/{descriptor}")
    os.close(descriptor)


def test_a_disk_that_hangs_holds_up_no_client_that_reads_from_another_one(
    tmp_path: Path, other_disk: Path, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = tmp_path / "segment"
    hung.write_bytes(bytes(WINDOW_BYTES))
    monkeypatch.setattr(outbox, "is_cached", lambda piece: False)
    monkeypatch.setattr(
        outbox, "read_ahead", lambda piece, _: disk.read() if piece.file.path == hung else None
    )

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        was_read = asyncio.Event()

        def ask_for(path: Path, on_read: Callable[[], object]) -> Outbox:
            box = Outbox(ours, loop, on_read)
            file = Disk().open(path, read_only=True)
            box.write([LogSlice(file, 0, WINDOW_BYTES, Offset(0), Offset(1))])
            return box

        boxes = [ask_for(hung, lambda: None) for _ in range(20)]
        try:
            async with asyncio.timeout(_SECONDS / 2):
                await asyncio.to_thread(disk.wait_for_reads, 8)
                other = ask_for(other_disk, was_read.set)
                await was_read.wait()
            assert not other.reading_ahead
            assert all(each.reading_ahead for each in boxes)
            for each in boxes:
                each.clear()
            assert sum(each.reading_ahead for each in boxes) == 8  # the rest was cancelled
        finally:
            disk.may_end.set()
            ours.close()
            theirs.close()

    asyncio.run(scenario())


def test_files_of_one_disk_share_its_threads(tmp_path: Path, other_disk: Path) -> None:
    threads = ThreadsByDisk()
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"")
    one, two, other = (
        Disk().open(each, read_only=True)
        for each in (tmp_path / "one", tmp_path / "two", other_disk)
    )

    assert threads.of(one) is threads.of(two)
    assert threads.of(one) is not threads.of(other)


def test_clients_that_leave_while_the_disk_hangs_leave_no_open_file(
    tmp_path: Path, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"

    def open_files() -> int:
        return sum(
            each.is_symlink() and each.readlink() == path
            for each in Path("/proc/self/fd").iterdir()
        )

    async def scenario() -> None:
        boxes = cold_outboxes(8, path, disk, monkeypatch)
        await asyncio.to_thread(disk.wait_for_reads, 2)
        assert open_files() == 8
        while boxes:
            box, ours, theirs = boxes.pop()
            box.clear()
            ours.close()
            theirs.close()
            del box
        assert open_files() == 2  # those that the disk is reading

    asyncio.run(scenario())
