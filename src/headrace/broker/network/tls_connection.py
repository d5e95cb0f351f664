"""One client's connection behind TLS: the same rules as without, and two more.

Rule 1: bytes that are decrypted and not received yet are received in the same turn, or when reading
resumes: the socket has no event for them.
Rule 2: pieces of files pass through this process, a few at a time: the kernel cannot encrypt them.
"""

import os
import socket
import ssl
from typing import cast

from headrace.broker.config.listener import Listener
from headrace.broker.network.connection import Connection, ConnectionHost
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
        """Read some of the piece into memory; the bytes are sent next."""
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

    def __init__(
        self, host: ConnectionHost, sock: TlsSocket, peer_host: str, listener: Listener
    ) -> None:
        self._tls = sock
        self._identified = False
        super().__init__(host, cast(socket.socket, sock), peer_host, listener)
        self._recv = self._receive

    def _make_outbox(self) -> Outbox:
        return TlsOutbox(self._sock, self._loop, self._on_writable)

    def _receive(self, size: int, _flags: int = 0) -> bytes:
        try:
            return self._tls.recv(size)
        except ssl.SSLError as error:
            if not self._identified:
                self._warn(PeerError(f"no TLS handshake: {error.reason or error}"))
            raise

    def _on_readable(self) -> None:
        super()._on_readable()
        while not self._closed and self._reading and self._tls.pending():
            super()._on_readable()

    def _watch(self) -> None:
        super()._watch()
        if self._reading and self._tls.pending():
            self._loop.call_soon(self._resume_reading)

    def _resume_reading(self) -> None:
        if not self._closed and self._reading:
            self._on_readable()

    def _accept(self, frames: list[Frame]) -> None:
        if not self._identified:
            # The handshake is over: without SASL the certificate says who it is.
            self._identified = True
            name = None if self.listener.authenticates else self._tls.peer_name()
            if name is not None:
                self.principal = f"User:{name}"
        super()._accept(frames)
