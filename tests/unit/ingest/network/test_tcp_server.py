"""The TCP server of the network sources: what the system refuses, and peers that say nothing."""

import errno
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.ingest.network.tcp_server import TcpServer
from headrace.testing.readiness import wait_until


class Pauses(Event):
    """Counts waits instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return self.is_set()


class Listener(socket.socket):
    """Fails to accept as often as the test says."""

    failures: deque[int]

    def accept(self) -> Any:
        if self.failures:
            raise OSError(self.failures.popleft(), "refused by the system")
        return super().accept()


@contextmanager
def serving(server: TcpServer) -> Iterator[int]:
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def test_an_accept_that_fails_is_repeated_after_a_pause_and_logged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = Listener()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.failures = deque([errno.EMFILE] * 6 + [errno.ECONNABORTED])
    monkeypatch.setattr("socket.create_server", lambda *_, **__: listener)
    served: list[bytes] = []
    server = TcpServer("r1", "127.0.0.1", 0, lambda peer: served.append(peer.recv(9)))
    server._stopping = pauses = Pauses()
    with (
        capture_logs() as logs,
        serving(server) as port,
        socket.create_connection(("127.0.0.1", port)) as peer,
    ):
        peer.sendall(b"hello")
        wait_until(lambda: served == [b"hello"], what="the peer")
    assert pauses.seconds == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert [each["event"] for each in logs] == ["accept_failed"] * 2


def test_the_kernel_looks_after_silent_peers() -> None:
    options: list[int] = []

    def serve(peer: socket.socket) -> None:
        options.append(peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        options.append(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))

    with (
        serving(TcpServer("r1", "127.0.0.1", 0, serve)) as port,
        socket.create_connection(("127.0.0.1", port)),
    ):
        wait_until(lambda: options == [1, 60], what="the options")


def test_a_connection_for_which_there_is_no_thread_is_closed_and_the_next_one_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: list[bytes] = []
    server = TcpServer("r1", "127.0.0.1", 0, lambda peer: served.append(peer.recv(9)))
    start = Thread.start
    failures = [True]

    def start_or_fail(thread: Thread) -> None:
        if thread.name == "r1-peer" and failures:
            failures.clear()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", start_or_fail)
    with serving(server) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as refused:
            assert refused.recv(1) == b""
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(b"hello")
            wait_until(lambda: served == [b"hello"], what="the second peer")
    assert server.connection_count == 0
