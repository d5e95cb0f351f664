"""Wakes a thread that waits in `poll` on sockets."""

import socket
from contextlib import suppress


class Waker:
    """A pair of connected sockets: a byte written to one makes the other readable.

    Threads: any thread calls `wake`, the polling thread alone calls the other methods.
    It is a socket pair and not a pipe because `wake` may race with `close`. A closed socket object
    raises, while a closed pipe's number may already belong to another file.
    """

    def __init__(self) -> None:
        self._out, self._in = socket.socketpair()
        self._out.setblocking(False)
        self._in.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor to poll; it is readable after `wake`."""
        return self._out.fileno()

    def wake(self) -> None:
        """Make the polling thread return from `poll`.

        Does nothing once it is closed, or when the socket is full of bytes that already wake it.
        """
        with suppress(OSError):
            self._in.send(b"!")

    def clear(self) -> None:
        """Consume the bytes of earlier calls of `wake`."""
        with suppress(BlockingIOError):
            self._out.recv(512)

    def close(self) -> None:
        self._in.close()
        self._out.close()
