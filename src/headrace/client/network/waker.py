"""Wakes a thread that polls sockets."""

import socket
from contextlib import suppress


class Waker:
    """A pair of sockets with a few bytes in between. `ring` from any thread, the rest from the
    poller's. Sockets and not a pipe: to ring one that was closed reaches nobody else's file."""

    def __init__(self) -> None:
        self._out, self._in = socket.socketpair()
        self._out.setblocking(False)
        self._in.setblocking(False)

    def fileno(self) -> int:
        """Readable once it was rung."""
        return self._out.fileno()

    def ring(self) -> None:
        """Harmless once it is closed; one that takes no more has been rung often enough."""
        with suppress(OSError):
            self._in.send(b"!")

    def hush(self) -> None:
        with suppress(BlockingIOError):
            self._out.recv(512)

    def close(self) -> None:
        self._in.close()
        self._out.close()
