"""Receives responses from a socket: four bytes of size, then so many bytes of body.

Rule 1: the size is checked before memory is allocated for it.
Rule 2: nothing is read past the end of a response. Bytes of the next response stay in the socket,
where `poll` sees them.
"""

import socket
from collections.abc import Callable
from typing import Any, Final

from headrace.client.address import Address
from headrace.client.error import ConnectionLost
from headrace.wire.primitive import INT32

RESPONSE_MAX_BYTES: Final = 1 << 30
"""A fetch response is bounded by its request, except for its first batch, which comes whole."""

Allocate = Callable[[int], Any]
"""Allocates a writable buffer of so many bytes. The bulk reader passes Arrow's pool, which reuses
pages: for large buffers, fresh pages cost more than receiving the bytes."""


class Inbox:
    """Assembles one response after the other from a socket that may return any part of it."""

    __slots__ = ("_allocate", "_buffer", "_filled", "_peer", "_sized")

    def __init__(self, peer: Address, allocate: Allocate = bytearray) -> None:
        self._peer = peer
        self._allocate = allocate
        self._start()

    def _start(self) -> None:
        self._buffer = memoryview(bytearray(INT32.size))
        self._filled = 0
        self._sized = False

    @property
    def filled_bytes(self) -> int:
        """How many bytes of the current response have arrived."""
        return self._filled

    def receive(self, source: socket.socket) -> memoryview | None:
        """Read once, or twice when the size is complete; return the response if it is whole now.

        Raises:
            ConnectionLost: the peer closed the connection, or does not send Kafka responses.
            OSError: the socket's own error; `BlockingIOError` if a non-blocking one is empty.
        """
        self._read(source)
        if not self._sized and self._filled == INT32.size:
            self._open()
            self._read(source)
        if self._filled < len(self._buffer) or not self._sized:
            return None
        frame = self._buffer
        self._start()
        return frame

    def _read(self, source: socket.socket) -> None:
        received = source.recv_into(self._buffer[self._filled :])
        if not received:
            raise ConnectionLost(f"the broker at {self._peer} closed the connection")
        self._filled += received

    def _open(self) -> None:
        (size,) = INT32.unpack(self._buffer)
        if not 4 <= size <= RESPONSE_MAX_BYTES:
            raise ConnectionLost(f"{self._peer} does not answer as a Kafka broker does")
        self._buffer = memoryview(self._allocate(size)).cast("B")
        self._filled = 0
        self._sized = True
