"""Answers come whole, however the network cuts them."""

import socket
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.address import Address
from headrace.client.error import ConnectionLost
from headrace.client.network.inbox import RESPONSE_MAX_BYTES, Allocate, Inbox

PEER = Address("127.0.0.1", 9092)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def framed(answer: bytes) -> bytes:
    return len(answer).to_bytes(4, "big") + answer


@pytest.mark.parametrize("allocate", [bytearray, pa.allocate_buffer])
@settings(deadline=None, max_examples=50)
@given(
    answers=st.lists(st.binary(min_size=4, max_size=50), min_size=1, max_size=5),
    cuts=st.sets(st.integers(1, 200)),
)
def test_whatever_the_pieces(allocate: Allocate, answers: list[bytes], cuts: set[int]) -> None:
    stream = b"".join(map(framed, answers))
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    inbox = Inbox(PEER, allocate)
    found = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        for first, past in pairwise(edges):
            theirs.sendall(stream[first:past])
            try:
                while True:
                    if (frame := inbox.receive(ours)) is not None:
                        found.append(bytes(frame))
            except BlockingIOError:
                pass

    assert found == answers


@pytest.mark.parametrize("size", [-1, 0, 3, RESPONSE_MAX_BYTES + 1])
def test_a_size_that_cannot_be_takes_no_memory(
    pair: tuple[socket.socket, socket.socket], size: int
) -> None:
    ours, theirs = pair
    theirs.sendall(size.to_bytes(4, "big", signed=True) + b"more")
    taken: list[int] = []

    def allocate(wanted: int) -> bytearray:
        taken.append(wanted)
        return bytearray(wanted)

    with pytest.raises(ConnectionLost, match="does not answer as a Kafka broker does"):
        Inbox(PEER, allocate).receive(ours)
    assert taken == []


def test_a_connection_that_ends_is_named(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(framed(b"12345678")[:7])
    theirs.close()
    inbox = Inbox(PEER)
    assert inbox.receive(ours) is None
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:9092 closed the connection"):
        inbox.receive(ours)
