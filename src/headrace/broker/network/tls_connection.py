"""One client's connection behind TLS: the same rules as without, and two more.

Rule 1: what is decrypted and not taken yet is taken in the same turn, or when reading goes on: no
event of the socket will tell of it.
Rule 2: pieces of files pass through this process, a few at a time: the kernel cannot encrypt them.
"""

import os
import ssl
from typing import Any

from headrace.broker.network.connection import Connection
from headrace.broker.network.outbox import Outbox
from headrace.broker.network.tls import TlsSocket
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import PeerError
from headrace.wire.framing import Frame

_PIECE_BYTES = 64 * 1024


class TlsOutbox(Outbox):
    """Parts on their way into a `TlsSocket`."""

    __slots__ = ()

    def _send_bytes(self) -> int:
        part = self._parts[0]
        assert not isinstance(part, LogSlice)
        sent = self._sock.send(part)
        self.held_bytes -= sent
        if sent == len(part):
            self._parts.popleft()
        else:
            self._parts[0] = memoryview(part)[sent:]
        return sent

    def _send_piece(self, piece: LogSlice, limit: int) -> int:
        """Read some of it; it is sent as bytes, now or later."""
        assert piece.file is not None
        size = min(piece.size, _PIECE_BYTES)
        data = os.pread(piece.file.fileno(), size, piece.position)
        if not data:
            raise ConnectionAbortedError(f"{piece.file.path} ended before all of it was sent")
        if len(data) == piece.size:
            self._parts.popleft()
        else:
            self._parts[0] = piece._replace(
                position=piece.position + len(data), size=piece.size - len(data)
            )
        self._parts.appendleft(data)
        self.held_bytes += len(data)
        return 0


class TlsConnection(Connection):
    """Made with a `TlsSocket` in place of a socket."""

    def __init__(self, loop: Any, poller: Any, sock: Any, *arguments: Any, **options: Any) -> None:
        self._tls: TlsSocket = sock
        self._identified = False
        super().__init__(loop, poller, sock, *arguments, **options)
        self._outbox = TlsOutbox(sock)
        self._recv = self._receive

    def _receive(self, size: int, _flags: int = 0) -> bytes:
        try:
            return self._tls.recv(size)
        except ssl.SSLError as error:
            if not self._identified:
                self._complain(PeerError(f"no TLS handshake: {error.reason or error}"))
            raise

    def _on_readable(self) -> None:
        super()._on_readable()
        while not self._closed and self._reading and self._tls.pending():
            super()._on_readable()

    def _watch(self) -> None:
        super()._watch()
        if self._reading and self._tls.pending():
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._closed and self._reading:
            self._on_readable()

    def _take(self, frames: list[Frame]) -> None:
        if not self._identified:
            # The handshake is over: without SASL the certificate says who it is.
            self._identified = True
            name = None if self.listener.authenticates else self._tls.peer_name()
            if name is not None:
                self.principal = f"User:{name}"
        super()._take(frames)
