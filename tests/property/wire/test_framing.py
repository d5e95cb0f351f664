"""Frames do not depend on how bytes arrive, who shares the pool, or which frames are still held."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.framing import BufferPool, Frame, FrameSplitter

# Sizes around every threshold: copied, first room, scratch, trusted.
sizes = st.one_of(
    st.integers(0, 300),
    st.sampled_from([4095, 4096, 4097, 8192, 65_536, 262_139, 262_140, 262_141, 600_000]),
)
_SMALL_BYTES = 8192  # what a connection receives at once where small frames are expected
pieces = st.one_of(st.integers(1, 20), st.integers(1_000, 300_000))


class Connection:
    """One peer: what it still has to send, and the frames that came out so far."""

    def __init__(self, pool: BufferPool, number: int, frame_sizes: list[int]) -> None:
        self.splitter = FrameSplitter(pool)
        self.takes_bytes = number % 2 == 0
        self.bodies = [
            bytes([(number * 31 + index) % 251 + 1]) * size
            for index, size in enumerate(frame_sizes)
        ]
        self.unsent = b"".join(struct.pack(">i", len(body)) + body for body in self.bodies)
        self.sent = 0
        self.received: list[Frame] = []

    @property
    def done(self) -> bool:
        return self.sent == len(self.unsent)

    def send(self, size: int) -> None:
        if self.takes_bytes and self.splitter.expects_small:
            piece = self.unsent[self.sent : self.sent + min(size, _SMALL_BYTES)]
            self.sent += len(piece)
            self.received += self.splitter.received(piece)
            return
        room = self.splitter.get_buffer(-1)
        count = min(len(room), size, len(self.unsent) - self.sent)
        room[:count] = self.unsent[self.sent : self.sent + count]
        del room
        self.sent += count
        self.received += self.splitter.buffer_updated(count)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(sizes, min_size=1, max_size=6), min_size=1, max_size=3),
    st.booleans(),
    st.data(),
)
def test_every_connection_gets_its_own_frames(
    plans: list[list[int]], held: bool, data: st.DataObject
) -> None:
    pool = BufferPool(keep_bytes=1 << 20)
    connections = [Connection(pool, number, plan) for number, plan in enumerate(plans)]
    checked = [0] * len(connections)

    turns = 0
    while unfinished := [c for c in connections if not c.done]:
        # After a while pieces are as large as the room, so that byte-wise plans end too.
        size = data.draw(pieces) if turns < 40 else 1 << 30
        turns += 1
        unfinished[turns % len(unfinished)].send(size)
        if held:
            continue
        for number, connection in enumerate(connections):
            for frame in connection.received:
                assert frame == connection.bodies[checked[number]]
                checked[number] += 1
            connection.received.clear()

    for number, connection in enumerate(connections):
        assert connection.received == connection.bodies[checked[number] :]
        assert connection.splitter.pending_bytes == 0
