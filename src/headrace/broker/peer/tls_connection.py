"""A connection to another broker behind TLS."""

import asyncio
from socket import socket
from typing import Any, Final, Protocol

from headrace.broker.network.tls import TlsSocket
from headrace.broker.peer.connection import PeerConnection, PeerLost, connected_socket
from headrace.broker.peer.host_resolver import HostResolver

_HANDSHAKE_SECONDS: Final = 10.0


class TlsClient(Protocol):
    """The certificates that a connection is made with."""

    def connect(self, sock: socket, host: str) -> TlsSocket:
        """Wrap a socket that is connected to `host`; the caller does the handshake first."""


class TlsPeerConnection(PeerConnection):
    """Made with a `TlsSocket` in place of a socket, after its handshake."""

    def __init__(self, sock: Any, *, limit_bytes: int) -> None:
        self._tls: TlsSocket = sock
        super().__init__(sock, limit_bytes=limit_bytes)

    @classmethod
    async def open_with(
        cls, tls: TlsClient, host: str, port: int, resolver: HostResolver, *, limit_bytes: int
    ) -> "TlsPeerConnection":
        """Connect and shake hands.

        Raises:
            PeerLost: the connection cannot be made, or its certificate is not trusted.
        """
        sock = tls.connect(await connected_socket(host, port, resolver), host)
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await _shake_hands(sock)
        except (OSError, TimeoutError) as error:
            sock.close()
            raise PeerLost(f"no TLS with the broker at {host}:{port}: {error}") from error
        except BaseException:
            sock.close()
            raise
        return cls(sock, limit_bytes=limit_bytes)

    def _on_readable(self) -> None:
        super()._on_readable()
        # Bytes that are decrypted already raise no event of the socket.
        while not self.closed and self._tls.pending():
            super()._on_readable()


async def _shake_hands(sock: TlsSocket) -> None:
    """Continue the handshake whenever bytes have come; what is sent always fits into the kernel."""
    loop = asyncio.get_running_loop()
    said = asyncio.Event()
    loop.add_reader(sock.fileno(), said.set)
    try:
        while True:
            said.clear()
            try:
                sock.handshake()
            except BlockingIOError:
                await said.wait()
            else:
                return
    finally:
        loop.remove_reader(sock.fileno())
