"""A connection between a real pair of sockets: order, bounds, and what bad bytes do."""

import asyncio
import os
import random
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.config.listener import Listener
from headrace.broker.network import outbox
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.network.connection_limits import ConnectionLimits
from headrace.broker.network.limited_warning import LimitedWarning
from headrace.broker.network.outbox import Outbox
from headrace.broker.network.page_cache import (
    AHEAD_BYTES,
    WINDOW_BYTES,
    is_cached,
    read_ahead,
)
from headrace.broker.network.partial_requests import PartialRequests
from headrace.broker.network.poller import Poller
from headrace.log.filesystem import Disk
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import PeerError
from headrace.model.offset import Offset
from headrace.wire.framing import BufferPool, Frame

PRODUCE = b"\x00\x00"
OTHER = b"\x00\x03"


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(number: int, kind: bytes = OTHER) -> bytes:
    return framed(kind + b"%d" % number)


LIMITS = ConnectionLimits(
    max_request_bytes=1 << 20,
    max_pending=500,
    max_partial_bytes=2**30,
    max_idle_ms=60_000,
    max_connections=1000,
    max_connections_per_host=1000,
    backlog=100,
)


class Peer:
    """The client's end, the connection, and its host, with the requests that it was asked."""

    def __init__(self, answer: Callable[[bytes], Answer], **limits: int) -> None:
        self.client, server = socket.socketpair()
        self.client.setblocking(False)
        server.setblocking(False)
        self.loop = asyncio.get_running_loop()
        self.asked: list[bytes] = []
        self.left: list[Connection] = []
        self._answer = answer
        self.poller = Poller(self.loop)
        self.buffers = BufferPool()
        self.limits = replace(LIMITS, **limits)
        self.warnings = LimitedWarning(self.loop.time)
        self.partial_requests = PartialRequests(self.limits.max_partial_bytes)
        _peers.append(self)
        listener = Listener("PLAINTEXT", "127.0.0.1", 9092)
        self.connection = Connection(self, server, "127.0.0.1", listener)

    def dispatch(self, _: Connection, frame: Frame) -> Answer:
        self.asked.append(bytes(frame))
        return self._answer(bytes(frame))

    def forget(self, connection: Connection) -> None:
        self.left.append(connection)

    async def send(self, content: bytes) -> None:
        await self.loop.sock_sendall(self.client, content)

    async def receive(self, size: int) -> bytes:
        """So many bytes, or fewer when the connection ends before."""
        received = bytearray()
        while len(received) < size:
            try:
                chunk = await self.loop.sock_recv(self.client, size - len(received))
            except ConnectionResetError:
                break
            if not chunk:
                break
            received += chunk
        return bytes(received)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until it holds."""
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0)

    async def settle(self) -> None:
        """Let the loop turn often enough that whatever could happen has."""
        for _ in range(20):
            await asyncio.sleep(0)


_peers: list[Peer] = []


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run it, not for ever, and close the sockets it leaves."""

    async def bounded() -> None:
        try:
            async with asyncio.timeout(60):
                await scenario()
        finally:
            while _peers:
                peer = _peers.pop()
                peer.client.close()
                peer.connection.close()
                peer.poller.close()

    asyncio.run(bounded())


def echo(frame: bytes) -> Answer:
    return (frame,)


def slice_of(path: Path, size: int) -> LogSlice:
    return LogSlice(Disk().open(path, read_only=True), 0, size, Offset(0), Offset(1))


class Futures:
    """Answers that the test completes."""

    def __init__(self) -> None:
        self.all: list[asyncio.Future[Parts | None]] = []

    def __call__(self, frame: bytes) -> Answer:
        future: asyncio.Future[Parts | None] = asyncio.get_running_loop().create_future()
        self.all.append(future)
        return future


# -- order


def test_produces_are_answered_in_the_order_they_came_whichever_is_ready_first() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures)
        await peer.send(request(1, PRODUCE) + request(2, PRODUCE) + request(3, PRODUCE))
        await peer.until(lambda: len(futures.all) == 3)
        futures.all[2].set_result((b"C",))
        futures.all[0].set_result((b"A",))
        assert await peer.receive(1) == b"A"
        futures.all[1].set_result((b"B",))
        assert await peer.receive(2) == b"BC"

    run(scenario)


def test_another_request_waits_until_the_one_before_it_is_answered() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures)
        await peer.send(request(1) + request(2))
        await peer.until(lambda: len(futures.all) == 1)
        await peer.settle()
        assert len(peer.asked) == 1
        futures.all[0].set_result((b"A",))
        await peer.until(lambda: len(futures.all) == 2)

    run(scenario)


def test_a_produce_does_not_overtake_what_waits_before_it() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures)
        await peer.send(request(1) + request(2, PRODUCE))
        await peer.settle()
        assert len(peer.asked) == 1

    run(scenario)


def test_a_request_without_an_answer_does_not_hold_up_the_next() -> None:
    async def scenario() -> None:
        peer = Peer(lambda frame: None if frame == PRODUCE + b"1" else (frame,))
        await peer.send(request(1, PRODUCE) + request(2, PRODUCE))
        assert await peer.receive(3) == PRODUCE + b"2"

    run(scenario)


def test_ten_thousand_requests_in_one_go_are_all_answered_in_order() -> None:
    async def scenario() -> None:
        peer = Peer(lambda frame: (framed(frame),))
        numbers = range(10_000)
        sending = asyncio.create_task(peer.send(b"".join(request(n) for n in numbers)))
        expected = b"".join(request(n) for n in numbers)
        assert await peer.receive(len(expected)) == expected
        await sending

    run(scenario)


# -- bounds


def test_one_turn_of_the_loop_starts_a_bounded_number_of_requests() -> None:
    async def scenario() -> None:
        peer = Peer(lambda frame: None)
        peer.client.send(b"".join(request(n) for n in range(1000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < len(peer.asked) <= 64
        await peer.until(lambda: len(peer.asked) == 1000)

    run(scenario)


def test_a_client_that_does_not_read_is_not_served_on() -> None:
    async def scenario() -> None:
        answer = b"x" * 50_000
        peer = Peer(lambda frame: (answer,))
        peer.client.send(b"".join(request(n) for n in range(1000)))
        await peer.settle()
        before = len(peer.asked)
        await peer.settle()
        assert len(peer.asked) == before < 100
        assert len(await peer.receive(1000 * len(answer))) == 1000 * len(answer)

    run(scenario)


def test_only_so_many_produces_wait_for_their_answers_at_once() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures, max_pending=3)
        await peer.send(b"".join(request(n, PRODUCE) for n in range(10)))
        await peer.settle()
        assert len(futures.all) == 3
        futures.all[0].set_result(None)
        await peer.until(lambda: len(futures.all) == 4)

    run(scenario)


def test_only_so_many_bytes_of_produces_wait_for_their_answers_at_once() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures, max_request_bytes=4 << 20)
        body = PRODUCE + bytes(3 << 20)
        sending = asyncio.create_task(peer.send(framed(body) * 4))
        await peer.until(lambda: len(futures.all) == 2)
        await peer.settle()
        assert len(futures.all) == 2
        futures.all[0].set_result(None)
        await peer.until(lambda: len(futures.all) == 3)
        sending.cancel()

    run(scenario)


def test_a_muted_client_is_answered_and_then_waits() -> None:
    async def scenario() -> None:
        peer = Peer(echo)
        peer.connection.mute(20)
        await peer.send(request(1))
        await peer.settle()
        assert not peer.asked
        assert await peer.receive(3) == OTHER + b"1"

    run(scenario)


# -- bad bytes


def test_a_negative_size_ends_the_connection_without_an_answer() -> None:
    async def scenario() -> None:
        peer = Peer(echo)
        await peer.send(b"\xff\xff\xff\xff")
        assert await peer.receive(1) == b""
        assert peer.left == [peer.connection]

    run(scenario)


def test_requests_before_a_bad_size_are_answered_before_the_connection_ends() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures)
        await peer.send(request(1) + request(2) + struct.pack(">i", 2**31 - 1))
        await peer.until(lambda: len(futures.all) == 1)
        futures.all[0].set_result((b"A",))
        await peer.until(lambda: len(futures.all) == 2)
        futures.all[1].set_result((b"B",))
        assert await peer.receive(3) == b"AB"
        assert peer.connection.closed

    run(scenario)


def test_requests_before_a_bad_one_are_answered_and_those_after_it_are_not() -> None:
    async def scenario() -> None:
        def answer(frame: bytes) -> Answer:
            if frame == OTHER + b"2":
                raise PeerError("no such thing")
            return (frame,)

        peer = Peer(answer)
        await peer.send(request(1) + request(2) + request(3))
        assert await peer.receive(6) == OTHER + b"1"
        assert peer.asked == [OTHER + b"1", OTHER + b"2"]

    run(scenario)


def test_an_answer_that_fails_ends_the_connection() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures)
        await peer.send(request(1))
        await peer.until(lambda: len(futures.all) == 1)
        futures.all[0].set_exception(PeerError("unreadable"))
        assert await peer.receive(1) == b""

    run(scenario)


# -- clients that leave


def test_a_wait_ends_when_its_client_leaves() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures)
        await peer.send(request(1))
        await peer.until(lambda: len(futures.all) == 1)
        peer.client.close()
        await peer.until(futures.all[0].cancelled)
        assert peer.connection.closed

    run(scenario)


def test_work_goes_on_when_its_client_leaves() -> None:
    async def scenario() -> None:
        step = asyncio.Event()
        done: list[bool] = []

        async def work() -> Parts:
            await step.wait()
            done.append(True)
            return (b"A",)

        peer = Peer(lambda frame: asyncio.create_task(work()))
        await peer.send(request(1))
        await peer.until(lambda: len(peer.asked) == 1)
        peer.client.close()
        await peer.until(lambda: peer.connection.closed)
        step.set()
        await peer.until(lambda: done == [True])

    run(scenario)


def test_a_client_that_left_is_noticed_although_nothing_is_read_from_it() -> None:
    async def scenario() -> None:
        peer = Peer(Futures())
        await peer.send(request(1) + request(2))
        await peer.until(lambda: len(peer.asked) == 1)
        assert not peer.connection.has_left()
        peer.client.close()
        await peer.settle()
        assert not peer.connection.closed
        assert peer.connection.has_left()

    run(scenario)


def test_it_closes_when_what_it_owes_is_sent() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = Peer(futures)
        await peer.send(request(1))
        await peer.until(lambda: len(futures.all) == 1)
        peer.connection.close_when_idle()
        assert not peer.connection.closed
        futures.all[0].set_result((b"A",))
        assert await peer.receive(2) == b"A"
        assert peer.connection.closed

    run(scenario)


def test_a_handler_may_ask_for_the_end_and_still_answer() -> None:
    async def scenario() -> None:
        def answer(frame: bytes) -> Answer:
            peer.connection.close_when_idle()
            return (b"bye",)

        peer = Peer(answer)
        await peer.send(request(1) + request(2))
        assert await peer.receive(4) == b"bye"
        assert len(peer.asked) == 1

    run(scenario)


# -- pieces of files


def test_bytes_and_pieces_of_files_arrive_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        content = bytes(range(256)) * 40_000
        path = tmp_path / "segment"
        path.write_bytes(content)
        parts = (b"head", slice_of(path, len(content)), b"tail", slice_of(path, 10), b"end")
        peer = Peer(lambda frame: parts)
        await peer.send(request(1))
        expected = b"head" + content + b"tail" + content[:10] + b"end"
        assert await peer.receive(len(expected)) == expected

    run(scenario)


def test_many_small_parts_arrive_in_order() -> None:
    async def scenario() -> None:
        parts = [b"%d," % n for n in range(1000)]
        peer = Peer(lambda frame: parts)
        await peer.send(request(1))
        assert await peer.receive(len(b"".join(parts))) == b"".join(parts)

    run(scenario)


def test_a_file_that_ends_early_ends_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "segment"
        path.write_bytes(b"short")
        peer = Peer(lambda frame: (b"head", slice_of(path, 100)))
        await peer.send(request(1))
        assert await peer.receive(1000) == b"headshort"
        assert peer.connection.closed

    run(scenario)


def test_a_client_that_leaves_in_the_middle_of_a_file_lets_go_of_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "segment"
        with path.open("wb") as file:
            file.truncate(64 << 20)
        opened = Disk().open(path, read_only=True)
        descriptor = opened.fileno()
        pieces = [LogSlice(opened, 0, 64 << 20, Offset(0), Offset(1))]
        del opened
        peer = Peer(lambda frame: (pieces.pop(),))
        await peer.send(request(1))
        await peer.receive(1 << 20)
        assert peer.connection.stalled
        peer.client.close()
        await peer.until(lambda: peer.connection.closed)
        assert not Path(f"/proc/self/fd/{descriptor}").exists()

    run(scenario)


# -- pieces that are not in the page cache


def piece_of(path: Path, content: bytes) -> LogSlice:
    path.write_bytes(content)
    return LogSlice(Disk().open(path, read_only=True), 0, len(content), Offset(0), Offset(1))


def test_the_loop_does_not_wait_for_a_piece_that_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = random.Random(1).randbytes(3 * WINDOW_BYTES + 17)
    may_read = threading.Event()
    positions: list[int] = []

    def read(piece: LogSlice, ahead_bytes: int) -> None:
        assert may_read.wait(90)
        positions.append(piece.position)

    monkeypatch.setattr(outbox, "is_cached", lambda piece: False)
    monkeypatch.setattr(outbox, "read_ahead", read)
    writes: list[Outbox] = []
    write = Outbox.write

    def counted_write(box: Outbox, parts: Parts = ()) -> int:
        writes.append(box)
        return write(box, parts)

    monkeypatch.setattr(Outbox, "write", counted_write)
    piece = piece_of(tmp_path / "segment", content)

    async def scenario() -> None:
        peer = Peer(lambda _: (b"head", piece, b"tail"))
        await peer.send(request(1))
        assert await peer.receive(4) == b"head"
        writes.clear()
        for _ in range(20):  # the loop turns, and does not spin on a socket that it could write to
            await asyncio.sleep(0)
        assert writes == []
        with pytest.raises(BlockingIOError):
            peer.client.recv(1)
        may_read.set()
        assert await peer.receive(len(content) + 4) == content + b"tail"

    run(scenario)
    assert positions[0] == 0
    assert len(positions) >= 3


def test_a_client_that_leaves_while_its_piece_is_read_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = threading.Event()
    monkeypatch.setattr(outbox, "is_cached", lambda piece: False)
    monkeypatch.setattr(outbox, "read_ahead", lambda piece, ahead_bytes: may_read.wait(90))
    piece = piece_of(tmp_path / "segment", bytes(WINDOW_BYTES))

    async def scenario() -> None:
        peer = Peer(lambda _: (b"head", piece))
        await peer.send(request(1))
        assert await peer.receive(4) == b"head"
        peer.connection.close()
        may_read.set()
        await asyncio.sleep(0.01)
        assert peer.left == [peer.connection]

    run(scenario)


def test_pages_that_were_dropped_are_not_cached_until_they_are_read(tmp_path: Path) -> None:
    piece = piece_of(tmp_path / "segment", bytes(4 * WINDOW_BYTES))
    assert piece.file is not None
    piece.file.sync()
    assert is_cached(piece)
    os.posix_fadvise(piece.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if is_cached(piece):
        pytest.skip("this file system keeps its pages")

    read_ahead(piece)

    assert is_cached(piece)


def test_a_client_that_reads_on_from_the_disk_finds_the_next_part_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = {0, WINDOW_BYTES}
    read: list[tuple[int, int]] = []
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(outbox, "is_cached", lambda piece: piece.position not in cold)
    monkeypatch.setattr(
        outbox, "read_ahead", lambda piece, ahead_bytes: read.append((piece.position, ahead_bytes))
    )
    monkeypatch.setattr(
        outbox, "request_pages", lambda file, position, size: asked.append((position, size))
    )
    whole = piece_of(tmp_path / "segment", bytes(12 * WINDOW_BYTES))
    pieces = [
        whole._replace(position=number * WINDOW_BYTES, size=WINDOW_BYTES) for number in range(12)
    ]

    async def scenario() -> None:
        peer = Peer(lambda _: (b"head", pieces.pop(0)))
        for number in range(12):
            await peer.send(request(number))
            await peer.receive(4 + WINDOW_BYTES)
        await peer.until(lambda: len(asked) >= 2)

    run(scenario)
    assert read == [(0, 0), (WINDOW_BYTES, AHEAD_BYTES)]
    # From then on half of it again, each time that half of it is sent.
    ends = [2 * WINDOW_BYTES + AHEAD_BYTES + number * AHEAD_BYTES // 2 for number in range(2)]
    assert asked[:2] == [(end, AHEAD_BYTES // 2) for end in ends]


def test_reading_ahead_keeps_no_file_of_a_client_that_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "is_cached", lambda piece: False)
    pieces = [piece_of(tmp_path / "segment", bytes(WINDOW_BYTES))]
    opened = pieces[0].file
    assert opened is not None
    descriptor = Path(f"/proc/self/fd/{opened.fileno()}")
    del opened

    async def scenario() -> None:
        peer = Peer(lambda _: (b"head", pieces.pop()))
        await peer.send(request(1))
        await peer.receive(4 + WINDOW_BYTES)
        await peer.until(lambda: not descriptor.exists())
        assert not peer.connection.closed

    run(scenario)
