"""Listening sockets and the connections that came through them.

Rule 1: connections never take the descriptors that the log needs: without them a segment could not
be opened, and that takes a directory offline. Past the limit the newest is refused, unless an older
one has never sent a request: strangers that only sit there (slow loris) make room for clients.
Rule 2: a connection that sent no request for `max_idle_ms` is closed, whatever it began to send,
and so is one that does not read its answers for as long. One that waits for an answer is not.
"""

import asyncio
import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import structlog

from headrace.broker.config.listener import Listener
from headrace.broker.network.connection import Answer, Connection
from headrace.broker.network.limited_warning import Complaints
from headrace.broker.network.partial_requests import UnfinishedRequests
from headrace.broker.network.poller import Poller
from headrace.model.error import ConfigError
from headrace.wire.framing import PREAUTHENTICATION_MAX_BYTES, BufferPool, Frame

if TYPE_CHECKING:
    from headrace.broker.network.tls import Tls

log = structlog.get_logger(__name__)

# Connections taken in one turn of the loop, so that a flood of them cannot hold up requests.
_ACCEPTS_PER_TURN = 64
_RETRY_ACCEPT_SECONDS = 0.5
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# A client sends its first request at once; whoever has not after this long may have to make room.
_STRANGER_SECONDS = 5.0
_EVICTED_TOGETHER = 64
_SWEEP_MAX_SECONDS = 30.0
_SWEEP_MIN_SECONDS = 0.05


class Acceptor:
    """Takes connections on every listener, within bounds, and closes those that sleep.

    Attributes:
        max_connections, max_connections_per_host: may be changed while it runs.
        refused: connections that were closed as they came.
        poller: tells connections that their sockets are ready.

    Args:
        dispatch: what a connection does with a frame.
        tls: for listeners that are encrypted.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        poller: Poller,
        dispatch: Callable[[Connection, Frame], Answer],
        max_request_bytes: int,
        max_pending: int,
        max_unfinished_bytes: int,
        max_idle_ms: int,
        max_connections: int,
        max_connections_per_host: int,
        backlog: int,
        tls: "Tls | None" = None,
    ) -> None:
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self.max_connections = max_connections
        self.max_connections_per_host = max_connections_per_host
        self._loop = loop
        self.poller = poller
        self._dispatch = dispatch
        self._max_request_bytes = max_request_bytes
        self._max_pending = max_pending
        self._max_idle_seconds = max_idle_ms / 1000
        self._backlog = backlog
        self._tls = tls
        self._pool = BufferPool()
        self._complaints = Complaints(loop.time)
        self._unfinished = UnfinishedRequests(max_unfinished_bytes)
        self._per_host: Counter[str] = Counter()
        self._sockets: dict[socket.socket, Listener] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._no_strangers_until = 0.0

    def bind(self, listener: Listener) -> Listener:
        """Open the socket of a listener; the answer has the port the kernel chose for port 0.

        Raises:
            ConfigError: the address is in use or is not this machine's.
        """
        try:
            sock = _listening_socket(listener, self._backlog)
        except OSError as error:
            raise ConfigError(f"cannot listen on {listener.address}: {_reason(error)}") from error
        bound = replace(listener, port=sock.getsockname()[1])
        self._sockets[sock] = bound
        return bound

    def start(self) -> None:
        for sock, listener in self._sockets.items():
            self._loop.add_reader(sock, self._accept, sock, listener)
        self._sweep()

    def close_doors(self) -> None:
        """Take no more connections and no more requests."""
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self.connections):
            connection.close_when_idle()

    async def stop(self, drain_seconds: float) -> None:
        """Close the doors, answer what was asked, and close all within the time given."""
        self.close_doors()
        deadline = self._loop.time() + drain_seconds
        while self.connections and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in tuple(self.connections):
            connection.close()
        self.poller.close()

    # -- taking

    def _accept(self, sock: socket.socket, listener: Listener) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                client, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest_from_accepting(sock, listener, error)
                return
            self._admit(client, address[0], listener)

    def _rest_from_accepting(self, sock: socket.socket, listener: Listener, error: OSError) -> None:
        """Out of descriptors, the socket stays readable: trying again at once would spin."""
        log.error("cannot take a connection", listener=str(listener), reason=_reason(error))
        if error.errno in _OUT_OF_FILES:
            self._loop.remove_reader(sock)
            self._loop.call_later(_RETRY_ACCEPT_SECONDS, self._accept_again, sock, listener)

    def _accept_again(self, sock: socket.socket, listener: Listener) -> None:
        if sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock, listener)

    def _admit(self, client: socket.socket, host: str, listener: Listener) -> None:
        if not self._has_room(host):
            self.refused += 1
            self._complaints.warn(
                "refused a connection: too many", peer=host, open=len(self.connections)
            )
            client.close()
            return
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A client whose machine vanished while it waits for an answer is found out by this.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._per_host[host] += 1
        self.accepted += 1
        limit = PREAUTHENTICATION_MAX_BYTES if listener.authenticates else self._max_request_bytes
        kind, sock = self._kind(client, listener)
        self.connections.add(
            kind(
                self._loop,
                self.poller,
                sock,
                host,
                listener,
                self._pool,
                dispatch=self._dispatch,
                on_close=self._forget,
                complaints=self._complaints,
                unfinished=self._unfinished,
                max_request_bytes=limit,
                max_pending=self._max_pending,
            )
        )

    def _kind(self, client: socket.socket, listener: Listener) -> tuple[type[Connection], Any]:
        if not listener.encrypted:
            return Connection, client
        from headrace.broker.network.tls_connection import TlsConnection

        assert self._tls is not None
        return TlsConnection, self._tls.accept(client)

    def _has_room(self, host: str) -> bool:
        if self._per_host[host] >= self.max_connections_per_host:
            return False
        return len(self.connections) < self.max_connections or self._evict_strangers()

    def _evict_strangers(self) -> bool:
        """Close those that came long ago and never asked for anything; several with one look."""
        now = self._loop.time()
        if now < self._no_strangers_until:
            return False
        oldest = now - _STRANGER_SECONDS
        strangers = [
            each for each in self.connections if not each.requests and each.refresh(now) < oldest
        ]
        if not strangers:
            self._no_strangers_until = now + _STRANGER_SECONDS / 10
            return False
        for each in nsmallest(_EVICTED_TOGETHER, strangers, key=lambda it: it.last_active):
            each.close()
        self._complaints.warn("closed connections that sent no request", found=len(strangers))
        return True

    # -- forgetting

    def _forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._per_host[connection.peer_host] -= 1
        if not self._per_host[connection.peer_host]:
            del self._per_host[connection.peer_host]

    def _sweep(self) -> None:
        """Close what slept too long; a byte now and then (slow loris) is not a request."""
        now = self._loop.time()
        oldest = now - self._max_idle_seconds
        for connection in tuple(self.connections):
            slept = connection.refresh(now) < oldest and (connection.idle or connection.stalled)
            if slept or connection.has_left():
                connection.close()
        pause = min(_SWEEP_MAX_SECONDS, max(_SWEEP_MIN_SECONDS, self._max_idle_seconds / 4))
        self._sweeper = self._loop.call_later(pause, self._sweep)


def _listening_socket(listener: Listener, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((listener.host, listener.port))
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there already; choose another port with --listen"
    return error.strerror or str(error)
