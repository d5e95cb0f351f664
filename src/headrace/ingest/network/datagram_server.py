"""A UDP server that passes datagrams on in batches."""

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from headrace.ingest.error import IngestError

_LARGEST_BYTES = 65_536
_BATCH = 500
_JOIN_SECONDS = 10.0
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}

Receive = Callable[[list[tuple[bytes, str]]], None]


class DatagramServer:
    """Waits for a datagram, reads those that have arrived since, and calls `receive` with all.

    While `receive` waits for a channel, datagrams stay in the kernel's buffer of
    `receive_buffer_bytes`; when that is full the kernel drops them, as UDP allows.
    """

    def __init__(
        self, name: str, host: str, port: int, receive: Receive, receive_buffer_bytes: int = 4 << 20
    ) -> None:
        self._name = name
        self._address = (host, port)
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._receive = receive
        self._receive_buffer_bytes = receive_buffer_bytes
        self._socket: socket.socket | None = None
        self._thread: Thread | None = None
        self._stopping = False

    @property
    def port(self) -> int:
        assert self._socket is not None, "the server has not started"
        port: int = self._socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Listen, and start the thread that reads.

        Raises:
            IngestError: the address cannot be used.
        """
        self._stopping = False
        server = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            server.bind(self._address)
        except OSError as error:
            server.close()
            raise IngestError(
                f"{self._name} cannot listen on {self._address[0]}:{self._address[1]}: "
                f"{error.strerror}"
            ) from error
        self._socket = server
        self._thread = Thread(target=self._run, args=(server,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        if self._thread is not None:
            # Closing a UDP socket does not wake its reader; an empty datagram does.
            with socket.socket(self._family, socket.SOCK_DGRAM) as waker, suppress(OSError):
                waker.sendto(b"", (_LOOPBACK[self._family], self.port))
            self._thread.join(_JOIN_SECONDS)
        if self._socket is not None:
            self._socket.close()

    def _run(self, server: socket.socket) -> None:
        while not self._stopping:
            try:
                data, peer = server.recvfrom(_LARGEST_BYTES)
            except OSError:
                return
            datagrams = [(data, peer[0]), *_waiting(server)]
            if any(data for data, _ in datagrams):
                self._receive([each for each in datagrams if each[0]])


def _waiting(server: socket.socket) -> list[tuple[bytes, str]]:
    """Return the datagrams that have arrived already."""
    datagrams: list[tuple[bytes, str]] = []
    while len(datagrams) < _BATCH:
        try:
            data, peer = server.recvfrom(_LARGEST_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
        datagrams.append((data, peer[0]))
    return datagrams
