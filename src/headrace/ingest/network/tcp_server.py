"""A TCP server with a thread per connection, for the network sources."""

import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread, current_thread

import structlog

from headrace.ingest.backoff import Backoff
from headrace.ingest.error import IngestError

_log = structlog.get_logger(__name__)
_BACKLOG = 128
_JOIN_SECONDS = 10.0
# After a failed accept: without a free descriptor the next one fails at once.
_PAUSE_SECONDS = (0.1, 1.0)
# A peer that has vanished is noticed after 60 + 4 * 15 seconds of silence.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
DEFAULT_CONNECTIONS = 1000

Serve = Callable[[socket.socket], None]


class TcpServer:
    """Accepts connections and calls `serve` with each, in a thread of its own.

    `serve` returns when the peer has closed its side; the server then closes the socket. `stop`
    shuts the sockets down, so that a `serve` that waits for bytes sees the end of the stream.

    Invariant: there are never more than `max_connections`; a further one is closed at once and
    logged. A peer that waits or says nothing keeps its place, one whose machine is gone does not.

    Threads: one thread calls `start` and `stop`.
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        serve: Serve,
        *,
        tls: ssl.SSLContext | None = None,
        max_connections: int = DEFAULT_CONNECTIONS,
    ) -> None:
        self._name = name
        self._host = host
        self._port = port
        self._serve = serve
        self._tls = tls
        self._max = max_connections
        self._server: socket.socket | None = None
        self._accepting: Thread | None = None
        self._open: dict[Thread, socket.socket] = {}
        self._lock = Lock()
        self._stopping = Event()

    @property
    def port(self) -> int:
        """The port it listens on; for port 0 the one that the system chose."""
        assert self._server is not None, "the server has not started"
        port: int = self._server.getsockname()[1]
        return port

    @property
    def connection_count(self) -> int:
        return len(self._open)

    def start(self) -> None:
        """Listen, and start the thread that accepts connections.

        Raises:
            IngestError: the address cannot be used.
        """
        self._stopping.clear()
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._server = socket.create_server(
                (self._host, self._port), family=family, backlog=_BACKLOG
            )
        except OSError as error:
            raise IngestError(
                f"{self._name} cannot listen on {self._host}:{self._port}: {error.strerror}"
            ) from error
        self._accepting = Thread(target=self._accept, name=f"{self._name}-accept", daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        self._stopping.set()
        server, self._server = self._server, None
        if server is not None:
            _shut_down(server)
            server.close()
        if self._accepting is not None:
            self._accepting.join(_JOIN_SECONDS)
        with self._lock:
            connections = list(self._open.items())
        for _, connection in connections:
            _shut_down(connection)
        for thread, _ in connections:
            thread.join(_JOIN_SECONDS)

    def _accept(self) -> None:
        server = self._server
        assert server is not None
        pause = Backoff(*_PAUSE_SECONDS)
        failure: int | None = None
        while True:
            try:
                connection, _ = server.accept()
            except OSError as error:
                if self._stopping.is_set():
                    return
                # No descriptor is free, or the peer is gone already: keep listening.
                if error.errno != failure:
                    _log.warning("accept_failed", server=self._name, reason=str(error))
                failure = error.errno
                if failure != errno.ECONNABORTED:
                    self._stopping.wait(pause.next_seconds())
                continue
            failure = None
            pause.reset()
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        with self._lock:
            if len(self._open) >= self._max or self._stopping.is_set():
                _log.warning("connection_refused", server=self._name, open=len(self._open))
                connection.close()
                return
            thread = Thread(
                target=self._run, args=(connection,), name=f"{self._name}-peer", daemon=True
            )
            self._open[thread] = connection
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads for us
            _log.warning("connection_refused", server=self._name, reason=str(error))
            with self._lock:
                del self._open[thread]
            connection.close()

    def _run(self, connection: socket.socket) -> None:
        peer = connection
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(connection)
            if self._tls is not None:
                connection.settimeout(30)
                peer = self._tls.wrap_socket(connection, server_side=True)
                peer.settimeout(None)
                # The first socket is detached now: `stop` must shut down the second.
                with self._lock:
                    self._open[current_thread()] = peer
                if self._stopping.is_set():
                    return
            self._serve(peer)
        except OSError as error:
            if not self._stopping.is_set():
                _log.info("connection_broken", server=self._name, reason=str(error))
        except IngestError as error:
            _log.warning("connection_closed", server=self._name, reason=str(error))
        finally:
            peer.close()
            with self._lock:
                self._open.pop(current_thread(), None)
            connection.close()


def _keep_alive(connection: socket.socket) -> None:
    """Let the kernel look after a peer that says nothing."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # macOS has not all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # the connection may be down already
        connection.shutdown(socket.SHUT_RDWR)
