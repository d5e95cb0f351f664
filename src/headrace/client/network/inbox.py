"""One answer while it arrives: its size first, then as many bytes.

Rule 1: the size is checked before memory is taken for it.
Rule 2: nothing is read past the end of an answer, so that what a poll tells about the socket is
true also for the next one.
"""

import socket
from collections.abc import Callable
from typing import Any, Final

from headrace.client.address import Address
from headrace.client.error import ConnectionLost
from headrace.wire.primitive import INT32

ANSWER_MAX_BYTES: Final = 1 << 30
"""A fetch is bounded by what was asked for, but for its first batch, which comes whole."""

Allocate = Callable[[int], Any]
"""Makes a writable buffer of so many bytes. Who reads in bulk hands in Arrow's pool, which gives
out pages that were used before: fresh ones cost more than the bytes that are read into them."""


class Inbox:
    """Fills one buffer after the other from a socket, which may give as little as it likes."""

    __slots__ = ("_allocate", "_filled", "_peer", "_room", "_sized")

    def __init__(self, peer: Address, allocate: Allocate = bytearray) -> None:
        self._peer = peer
        self._allocate = allocate
        self._start()

    def _start(self) -> None:
        self._room = memoryview(bytearray(INT32.size))
        self._filled = 0
        self._sized = False

    @property
    def filled_bytes(self) -> int:
        """How much of an answer has come."""
        return self._filled

    def receive(self, source: socket.socket) -> memoryview | None:
        """Read once, or twice when a size is complete: the answer, if it is whole now.

        Raises:
            ConnectionLost: the peer has closed, or sends something else than answers.
            OSError: what the socket says; one that does not wait says `BlockingIOError`.
        """
        self._read(source)
        if not self._sized and self._filled == INT32.size:
            self._open()
            self._read(source)
        if self._filled < len(self._room) or not self._sized:
            return None
        frame = self._room
        self._start()
        return frame

    def _read(self, source: socket.socket) -> None:
        received = source.recv_into(self._room[self._filled :])
        if not received:
            raise ConnectionLost(f"the broker at {self._peer} closed the connection")
        self._filled += received

    def _open(self) -> None:
        (size,) = INT32.unpack(self._room)
        if not 4 <= size <= ANSWER_MAX_BYTES:
            raise ConnectionLost(f"{self._peer} does not answer as a Kafka broker does")
        self._room = memoryview(self._allocate(size)).cast("B")
        self._filled = 0
        self._sized = True
