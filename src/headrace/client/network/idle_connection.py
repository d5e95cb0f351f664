"""Connections that no client uses at the moment, for the next client of the same process.

A Spark worker runs one short task after the other, and each has clients of its own. To connect, and
over TLS and SASL to log in, takes longer than what such a task asks of the broker.

Rule 1: only clients whose settings say `reuses_connections` use it. Any other client's connection
        is closed when the client is done.
Rule 2: a connection is released to it only while nothing is in flight, and if its login does not
        expire (KIP-368). It goes to a client that would log in at the same address as the same
        user.
Rule 3: the broker must answer before a connection is reused, so that it is worth as much as a new
        one: a broker, or a firewall in between, may have forgotten it without a word. An answer in
        the last `PROVEN_SECONDS` is proof enough.
Rule 4: at most `MAX_IDLE`, and none that was idle for longer than `IDLE_SECONDS` is reused.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.client.address import Address
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.inbox import Allocate
from headrace.client.settings import ClientSettings, SaslSettings, TlsSettings

MAX_IDLE: Final = 16
IDLE_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 1.0
"""How long to wait for a connection to prove itself. To connect again is the better choice then."""

PROVEN_SECONDS: Final = 1.0
"""How long an answer proves a connection. A client that sends requests one after the other on its
own connection takes as much for granted."""


class _Login(NamedTuple):
    """What two clients must share to use the same connection."""

    address: Address
    client_id: str
    tls: TlsSettings | None
    sasl: SaslSettings | None


class _Idle(NamedTuple):
    login: _Login
    connection: BrokerConnection
    since: float


class IdleConnections:
    """The connections that no client uses at the moment. Any thread may call it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[Address, ClientSettings, Allocate], BrokerConnection] = BrokerConnection,
    ) -> None:
        self._clock = clock
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: deque[_Idle] = deque()

    def open(
        self, address: Address, settings: ClientSettings, allocate: Allocate = bytearray
    ) -> BrokerConnection:
        """Return an idle connection, or else connect; see `BrokerConnection` for what is raised."""
        if settings.reuses_connections:
            login = _login(address, settings)
            while (found := self._remove(login)) is not None:
                proven = False
                try:
                    if _is_quiet(found):
                        found.reuse_for(settings, allocate)
                        recent = self._clock() - found.answered_at <= PROVEN_SECONDS
                        proven = recent or found.answers(ANSWER_SECONDS)
                        if proven:
                            return found
                        self._close_all(address)
                finally:
                    if not proven:
                        found.close()
        return self._connect(address, settings, allocate)

    def release(self, connection: BrokerConnection) -> None:
        """Keep the connection of a client that is done, for the next one; or close it."""
        settings = connection.settings
        if not settings.reuses_connections or not connection.is_reusable:
            connection.close()
            return
        login = _login(connection.address, settings)
        with self._lock:
            self._idle.append(_Idle(login, connection, self._clock()))
            outdated = self._remove_outdated()
        for each in outdated:
            each.close()

    def forget(self) -> None:
        """Forget all of them, in a forked process: its parent goes on using the sockets."""
        self._lock = threading.Lock()
        self._idle = deque()

    def _remove(self, login: _Login) -> BrokerConnection | None:
        with self._lock:
            outdated = self._remove_outdated()
            found = next((each for each in reversed(self._idle) if each.login == login), None)
            if found is not None:
                self._idle.remove(found)
        for each in outdated:
            each.close()
        return None if found is None else found.connection

    def _remove_outdated(self) -> list[BrokerConnection]:
        """Remove the oldest that are too old, or too many, and return them."""
        oldest = self._clock() - IDLE_SECONDS
        found = []
        while self._idle and (len(self._idle) > MAX_IDLE or self._idle[0].since < oldest):
            found.append(self._idle.popleft().connection)
        return found

    def _close_all(self, address: Address) -> None:
        """Close those to a broker that did not answer, instead of waiting for each."""
        with self._lock:
            silent = [each for each in self._idle if each.login.address == address]
            for each in silent:
                self._idle.remove(each)
        for each in silent:
            each.connection.close()


def _login(address: Address, settings: ClientSettings) -> _Login:
    return _Login(address, settings.client_id, settings.tls, settings.sasl)


def _is_quiet(connection: BrokerConnection) -> bool:
    """Return whether the broker has neither closed the connection nor sent anything unasked."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return not connection.holds_bytes and not poller.poll(0)


IDLE: Final = IdleConnections()
"""Those of this process."""

os.register_at_fork(after_in_child=IDLE.forget)
