"""The connections of all clients, from the listening sockets that they come through.

Rule 1: connections never use up the descriptors that the log needs: without them a segment could
not be opened, and that takes a directory offline. Past the limit the newest connection is refused,
unless an older one has never sent a request: such an idle newcomer (slow loris) is closed instead.
Rule 2: a connection that sent no request for `max_idle_ms` is closed, whatever it began to send,
and so is one that does not read its answers for as long. One that waits for an answer is not.
"""

import asyncio
import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import nsmallest
from typing import TYPE_CHECKING

import structlog

from headrace.broker.config.listener import Listener
from headrace.broker.limited_warning import LimitedWarning
from headrace.broker.network.connection import Answer, Connection
from headrace.broker.network.connection_limits import ConnectionLimits
from headrace.broker.network.listening_socket import ListeningSocket
from headrace.broker.network.partial_requests import PartialRequests
from headrace.broker.network.poller import Poller
from headrace.wire.framing import BufferPool, Frame

if TYPE_CHECKING:
    from headrace.broker.network.tls import Tls

log = structlog.get_logger(__name__)

# Connections accepted in one turn of the loop, so that a flood of them cannot hold up requests.
_ACCEPTS_PER_TURN = 64
_RETRY_ACCEPT_SECONDS = 0.5
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# A client sends its first request at once; a connection that has not after this long is an idle
# newcomer.
_NEWCOMER_SECONDS = 5.0
_EVICTED_TOGETHER = 64
_SWEEP_MAX_SECONDS = 30.0
_SWEEP_MIN_SECONDS = 0.05


class Acceptor:
    """Accepts connections on every listener, within `limits`, and closes idle ones.

    Attributes:
        refused: connections that were closed as they came.

    Args:
        poller: watches the sockets of the connections; closed by `stop`.
        sockets: where clients connect; closed by `stop_accepting`.
        dispatch: what a connection does with a frame.
        tls: for listeners that are encrypted.
    """

    def __init__(
        self,
        poller: Poller,
        limits: ConnectionLimits,
        sockets: Iterable[ListeningSocket],
        *,
        dispatch: Callable[[Connection, Frame], Answer],
        tls: "Tls | None" = None,
    ) -> None:
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self.limits = limits
        self.poller = poller
        self.dispatch = dispatch
        self.buffers = BufferPool()
        self.warnings = LimitedWarning(poller.loop.time, log)
        self.partial_requests = PartialRequests(limits.max_partial_bytes)
        self._loop = poller.loop
        self._max_idle_seconds = limits.max_idle_ms / 1000
        self._tls = tls
        self._per_host: Counter[str] = Counter()
        self._sockets = {each.sock: each.listener for each in sockets}
        self._sweeper: asyncio.TimerHandle | None = None
        self._no_newcomers_until = 0.0

    def apply_limits(self, limits: ConnectionLimits) -> None:
        """Let so many connections in from now on; the other limits hold from a restart on."""
        self.limits = replace(
            self.limits,
            max_connections=limits.max_connections,
            max_connections_per_host=limits.max_connections_per_host,
        )

    def start(self) -> None:
        for sock, listener in self._sockets.items():
            self._loop.add_reader(sock, self._accept, sock, listener)
        self._sweep()

    def stop_accepting(self) -> None:
        """Accept no more connections and no more requests."""
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self.connections):
            connection.close_when_idle()

    async def stop(self, drain_seconds: float) -> None:
        """Answer the requests that have come, and close every connection in `drain_seconds`."""
        self.stop_accepting()
        deadline = self._loop.time() + drain_seconds
        while self.connections and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in tuple(self.connections):
            connection.close()
        self.poller.close()

    # -- accepting

    def _accept(self, sock: socket.socket, listener: Listener) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                client, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(sock, listener, error)
                return
            self._admit(client, address[0], listener)

    def _pause_accepting(self, sock: socket.socket, listener: Listener, error: OSError) -> None:
        """Stop for a while: without descriptors the socket stays readable, and the loop spins."""
        log.error("accept_failed", listener=str(listener), reason=error.strerror or str(error))
        if error.errno in _OUT_OF_FILES:
            self._loop.remove_reader(sock)
            self._loop.call_later(_RETRY_ACCEPT_SECONDS, self._accept_again, sock, listener)

    def _accept_again(self, sock: socket.socket, listener: Listener) -> None:
        if sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock, listener)

    def _admit(self, client: socket.socket, host: str, listener: Listener) -> None:
        if not self._has_room(host):
            self.refused += 1
            self.warnings.warn("connection_refused", peer=host, open=len(self.connections))
            client.close()
            return
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Notices a client whose machine vanished while it waits for an answer.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._per_host[host] += 1
        self.accepted += 1
        self.connections.add(self._connect(client, host, listener))

    def _connect(self, client: socket.socket, host: str, listener: Listener) -> Connection:
        if not listener.encrypted:
            return Connection(self, client, host, listener)
        from headrace.broker.network.tls_connection import TlsConnection

        assert self._tls is not None
        return TlsConnection(self, self._tls.accept(client), host, listener)

    def _has_room(self, host: str) -> bool:
        if self._per_host[host] >= self.limits.max_connections_per_host:
            return False
        return len(self.connections) < self.limits.max_connections or self._evict_newcomers()

    def _evict_newcomers(self) -> bool:
        """Close several connections that came long ago and never sent a request; whether any."""
        now = self._loop.time()
        if now < self._no_newcomers_until:
            return False
        oldest = now - _NEWCOMER_SECONDS
        newcomers = [
            each for each in self.connections if not each.requests and each.refresh(now) < oldest
        ]
        if not newcomers:
            self._no_newcomers_until = now + _NEWCOMER_SECONDS / 10
            return False
        for each in nsmallest(_EVICTED_TOGETHER, newcomers, key=lambda it: it.last_active):
            each.close()
        self.warnings.warn("idle_newcomers_closed", newcomers=len(newcomers))
        return True

    # -- closing

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._per_host[connection.peer_host] -= 1
        if not self._per_host[connection.peer_host]:
            del self._per_host[connection.peer_host]

    def _sweep(self) -> None:
        """Close connections without a request for too long; single bytes (slow loris) are none."""
        now = self._loop.time()
        oldest = now - self._max_idle_seconds
        for connection in tuple(self.connections):
            idle = connection.refresh(now) < oldest and (connection.idle or connection.stalled)
            if idle or connection.has_left():
                connection.close()
        pause = min(_SWEEP_MAX_SECONDS, max(_SWEEP_MIN_SECONDS, self._max_idle_seconds / 4))
        self._sweeper = self._loop.call_later(pause, self._sweep)
