"""How a connection's bytes become frames, and what that costs in memory."""

import struct

import pytest

from headrace.model.error import InvalidArgument, PeerError
from headrace.wire.error import FrameTooLarge
from headrace.wire.framing import (
    PREAUTHENTICATION_MAX_BYTES,
    REQUEST_MAX_BYTES,
    BufferPool,
    Frame,
    FrameSplitter,
)

KIB = 1024
MIB = 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def receive(splitter: FrameSplitter, data: bytes, step: int = 1 << 30) -> list[Frame]:
    """Hand over `data` as a socket would: as much as fits, at most `step` bytes at a time."""
    frames: list[Frame] = []
    at = 0
    while at < len(data):
        room = splitter.get_buffer(-1)
        count = min(len(room), step, len(data) - at)
        room[:count] = data[at : at + count]
        del room
        frames += splitter.buffer_updated(count)
        at += count
    return frames


def receiving_into(splitter: FrameSplitter) -> int:
    """Which buffer comes next. Keeps no view of it, as a view would keep it from being reused."""
    return id(splitter.get_buffer().obj)


@pytest.fixture
def pool() -> BufferPool:
    return BufferPool()


@pytest.fixture
def splitter(pool: BufferPool) -> FrameSplitter:
    return FrameSplitter(pool)


def test_one_frame_in_one_read(splitter: FrameSplitter) -> None:
    assert receive(splitter, framed(b"hello")) == [b"hello"]


def test_many_pipelined_frames_in_one_read(splitter: FrameSplitter) -> None:
    bodies = [bytes([number]) * number for number in range(200)]
    assert receive(splitter, framed(*bodies)) == bodies


def test_an_empty_frame_is_a_frame(splitter: FrameSplitter) -> None:
    assert receive(splitter, framed(b"", b"x")) == [b"", b"x"]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 4099])
def test_frames_do_not_depend_on_how_the_bytes_arrive(splitter: FrameSplitter, step: int) -> None:
    bodies = [b"a" * 3, b"", b"b" * 10_000, b"c" * 5_000, b"d"]
    assert receive(splitter, framed(*bodies), step) == bodies


def test_a_large_frame_arrives_whole(splitter: FrameSplitter) -> None:
    body = bytes(range(256)) * (12 * KIB)
    assert receive(splitter, framed(body, b"next"), 100_000) == [body, b"next"]


def test_pending_bytes_counts_an_unfinished_frame(splitter: FrameSplitter) -> None:
    receive(splitter, framed(b"x" * 10)[:3])
    assert splitter.pending_bytes == 3
    receive(splitter, framed(b"x" * 10)[3:9])
    assert splitter.pending_bytes == 9
    receive(splitter, b"x" * 5)
    assert splitter.pending_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_MAX_BYTES + 1, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused(splitter: FrameSplitter, size: int) -> None:
    with pytest.raises(FrameTooLarge, match=str(size)) as caught:
        receive(splitter, struct.pack(">i", size))
    assert isinstance(caught.value, PeerError)


def test_frames_before_a_bad_size_are_not_lost(splitter: FrameSplitter) -> None:
    with pytest.raises(FrameTooLarge) as caught:
        receive(splitter, framed(b"one", b"two") + b"\xff\xff\xff\xff")
    assert caught.value.frames == [b"one", b"two"]


def test_the_limit_is_low_before_authentication_and_can_be_raised(pool: BufferPool) -> None:
    splitter = FrameSplitter(pool, PREAUTHENTICATION_MAX_BYTES)
    body = b"x" * (PREAUTHENTICATION_MAX_BYTES + 1)
    with pytest.raises(FrameTooLarge):
        receive(splitter, framed(body))

    splitter = FrameSplitter(pool, PREAUTHENTICATION_MAX_BYTES)
    splitter.limit_bytes = REQUEST_MAX_BYTES
    assert receive(splitter, framed(body)) == [body]


def test_an_announced_size_allocates_nothing_until_bytes_come(splitter: FrameSplitter) -> None:
    receive(splitter, struct.pack(">i", REQUEST_MAX_BYTES) + b"x" * 100)
    assert len(splitter.get_buffer()) <= 4 * KIB


def test_the_room_at_most_doubles_what_a_stranger_has_sent(splitter: FrameSplitter) -> None:
    receive(splitter, struct.pack(">i", 50 * MIB))
    sent = 0
    while sent < 3 * MIB:
        room = len(splitter.get_buffer())
        assert room <= max(2 * sent, 4 * KIB)
        receive(splitter, b"x" * room)
        sent += room


def test_a_familiar_size_is_received_in_place(pool: BufferPool) -> None:
    splitter = FrameSplitter(pool)
    body = b"x" * MIB
    receive(splitter, framed(body))
    assert len(splitter.get_buffer()) >= MIB + 4


def test_familiarity_fades_with_small_frames(pool: BufferPool) -> None:
    splitter = FrameSplitter(pool)
    receive(splitter, framed(b"x" * MIB))
    receive(splitter, framed(*[b"y"] * 100))
    assert receiving_into(splitter) == id(pool.scratch())


def test_a_held_frame_is_never_overwritten(splitter: FrameSplitter) -> None:
    first = b"a" * (20 * KIB)
    (held,) = receive(splitter, framed(first))
    for letter in b"bcdefgh":
        receive(splitter, framed(bytes([letter]) * (20 * KIB)))
    assert held == first


def test_held_large_frames_of_two_connections_do_not_meet(pool: BufferPool) -> None:
    one, two = FrameSplitter(pool), FrameSplitter(pool)
    receive(one, framed(b"1" * MIB))
    receive(two, framed(b"2" * MIB))
    receive(one, framed(b"1" * MIB)[: MIB // 2])
    frames = receive(two, framed(b"2" * MIB))
    frames += receive(one, framed(b"1" * MIB)[MIB // 2 :])
    assert frames == [b"2" * MIB, b"1" * MIB]


def test_a_buffer_is_reused_when_its_frames_are_gone(pool: BufferPool) -> None:
    splitter = FrameSplitter(pool)
    before = receiving_into(splitter)
    frames = receive(splitter, framed(b"x" * (20 * KIB)))
    assert receiving_into(splitter) != before
    del frames
    later = {receiving_into(splitter)}
    for _ in range(5):
        receive(splitter, framed(b"x" * (20 * KIB)))
        later.add(receiving_into(splitter))
    assert len(later) <= 2


def test_idle_connections_share_one_buffer(pool: BufferPool) -> None:
    one, two = FrameSplitter(pool), FrameSplitter(pool)
    assert receiving_into(one) == receiving_into(two)


def test_a_small_held_frame_does_not_hold_the_shared_buffer(pool: BufferPool) -> None:
    splitter = FrameSplitter(pool)
    shared = receiving_into(splitter)
    held = receive(splitter, framed(b"x" * 1000))
    held += receive(splitter, framed(b"y" * 1000), 600)
    assert receiving_into(splitter) == shared
    assert held == [b"x" * 1000, b"y" * 1000]


def test_the_pool_keeps_no_more_than_it_may(pool: BufferPool) -> None:
    pool = BufferPool(keep_bytes=2 * MIB)
    lent = [memoryview(pool.lend(MIB)) for _ in range(5)]
    first_two = {id(view.obj) for view in lent[:2]}
    del lent
    assert {id(pool.lend(MIB)) for _ in range(4)} <= first_two


def test_a_negative_limit_or_pool_is_a_clear_error(pool: BufferPool) -> None:
    with pytest.raises(InvalidArgument, match="-1"):
        FrameSplitter(pool, -1)
    with pytest.raises(InvalidArgument, match="-1"):
        BufferPool(-1)
