"""What a connection sends: bytes and pieces of files, in the page cache or not."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

from headrace.broker.network import outbox
from headrace.broker.network.connection import Parts
from headrace.broker.network.outbox import Outbox
from headrace.broker.network.page_cache import AHEAD_BYTES, WINDOW_BYTES
from headrace.log.filesystem import Disk
from headrace.log.partition.log_slice import LogSlice
from headrace.model.offset import Offset
from testkit.sample.connection_peer import ConnectionPeer, request, run


def slice_of(path: Path, size: int) -> LogSlice:
    return LogSlice(Disk().open(path, read_only=True), 0, size, Offset(0), Offset(1))


def piece_of(path: Path, content: bytes) -> LogSlice:
    path.write_bytes(content)
    return slice_of(path, len(content))


def test_bytes_and_pieces_of_files_arrive_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        content = bytes(range(256)) * 40_000
        path = tmp_path / "segment"
        path.write_bytes(content)
        parts = (b"head", slice_of(path, len(content)), b"tail", slice_of(path, 10), b"end")
        peer = ConnectionPeer(lambda frame: parts)
        await peer.send(request(1))
        expected = b"head" + content + b"tail" + content[:10] + b"end"
        assert await peer.receive(len(expected)) == expected

    run(scenario)


def test_many_small_parts_arrive_in_order() -> None:
    async def scenario() -> None:
        parts = [b"%d," % n for n in range(1000)]
        peer = ConnectionPeer(lambda frame: parts)
        await peer.send(request(1))
        assert await peer.receive(len(b"".join(parts))) == b"".join(parts)

    run(scenario)


def test_a_file_that_ends_early_ends_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "segment"
        path.write_bytes(b"short")
        peer = ConnectionPeer(lambda frame: (b"head", slice_of(path, 100)))
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
        peer = ConnectionPeer(lambda frame: (pieces.pop(),))
        await peer.send(request(1))
        await peer.receive(1 << 20)
        assert peer.connection.stalled
        peer.client.close()
        await peer.until(lambda: peer.connection.closed)
        assert not Path(f"/proc/self/fd/{descriptor}").exists()

    run(scenario)


# -- pieces that are not in the page cache


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
        peer = ConnectionPeer(lambda _: (b"head", piece, b"tail"))
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
        peer = ConnectionPeer(lambda _: (b"head", piece))
        await peer.send(request(1))
        assert await peer.receive(4) == b"head"
        peer.connection.close()
        may_read.set()
        await asyncio.sleep(0.01)
        assert peer.left == [peer.connection]

    run(scenario)


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
        peer = ConnectionPeer(lambda _: (b"head", pieces.pop(0)))
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
        peer = ConnectionPeer(lambda _: (b"head", pieces.pop()))
        await peer.send(request(1))
        await peer.receive(4 + WINDOW_BYTES)
        await peer.until(lambda: not descriptor.exists())
        assert not peer.connection.closed

    run(scenario)
