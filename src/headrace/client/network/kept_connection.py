"""Connections that are kept when a client is done, for the next client of the same process.

A Spark worker runs one short task after the other, and each has clients of its own. To connect, and
over TLS and SASL to log in, takes longer than what such a task asks of the broker.

Rule 1: only clients whose settings say `keeps_connections` use it. Any other client's connection is
        closed when the client is done.
Rule 2: a connection is kept only while nothing is in flight, and the broker has set its login no
        end. It goes to a client that would log in at the same address as the same user.
Rule 3: at most `MOST_KEPT`, and none for longer than `KEPT_SECONDS`: brokers close connections that
        idle. One that the broker has closed, or has written to, is not passed on.
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

MOST_KEPT: Final = 16
KEPT_SECONDS: Final = 30.0


class _Login(NamedTuple):
    """What two clients must share to use the same connection."""

    address: Address
    client_id: str
    tls: TlsSettings | None
    sasl: SaslSettings | None


class _Kept(NamedTuple):
    login: _Login
    connection: BrokerConnection
    since: float


class KeptConnections:
    """The connections that no client uses at the moment. Any thread may call it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[Address, ClientSettings, Allocate], BrokerConnection] = BrokerConnection,
    ) -> None:
        self._clock = clock
        self._connect = connect
        self._lock = threading.Lock()
        self._kept: deque[_Kept] = deque()
        self._process = os.getpid()

    def open(
        self, address: Address, settings: ClientSettings, allocate: Allocate = bytearray
    ) -> BrokerConnection:
        """Return a kept connection, or else connect; see `BrokerConnection` for what is raised."""
        if settings.keeps_connections:
            login = _login(address, settings)
            while (kept := self._take(login)) is not None:
                if _is_quiet(kept):
                    kept.pass_on(settings, allocate)
                    return kept
                kept.close()
        return self._connect(address, settings, allocate)

    def done(self, connection: BrokerConnection) -> None:
        """Keep a connection whose client is done with it, or close it."""
        settings = connection.settings
        if not settings.keeps_connections or not connection.is_reusable:
            connection.close()
            return
        login = _login(connection.address, settings)
        with self._lock:
            self._drop_those_of_a_parent()
            self._kept.append(_Kept(login, connection, self._clock()))
            dropped = self._outdated()
        for each in dropped:
            each.close()

    def _take(self, login: _Login) -> BrokerConnection | None:
        with self._lock:
            self._drop_those_of_a_parent()
            dropped = self._outdated()
            found = next((each for each in reversed(self._kept) if each.login == login), None)
            if found is not None:
                self._kept.remove(found)
        for each in dropped:
            each.close()
        return None if found is None else found.connection

    def _outdated(self) -> list[BrokerConnection]:
        """Remove the oldest that are too old, or too many, and return them."""
        oldest = self._clock() - KEPT_SECONDS
        dropped = []
        while self._kept and (len(self._kept) > MOST_KEPT or self._kept[0].since < oldest):
            dropped.append(self._kept.popleft().connection)
        return dropped

    def _drop_those_of_a_parent(self) -> None:
        """A forked process must not write to the sockets that its parent uses."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._kept.clear()


def _login(address: Address, settings: ClientSettings) -> _Login:
    return _Login(address, settings.client_id, settings.tls, settings.sasl)


def _is_quiet(connection: BrokerConnection) -> bool:
    """Return whether the broker has neither closed the connection nor sent anything unasked."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return not connection.holds_bytes and not poller.poll(0)


KEPT: Final = KeptConnections()
"""Those of this process."""
