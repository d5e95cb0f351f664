"""Connects this broker to the others: through which of their listeners, and as which user.

As in Kafka all brokers of a cluster talk through one listener, `inter.broker.listener.name`, or the
one of `security.inter.broker.protocol`. If it asks for a login they log in, with PLAIN or SCRAM, as
the user in `headrace.inter.broker.user.file`. Where an authorizer is set that user must be a super
user, or be allowed CLUSTER_ACTION: no other user may copy a partition up to its log end.

A SCRAM user has to be in the cluster's state before a broker can log in as that user. So the broker
that starts first puts it there, if the cluster has no such user yet; one that is there stays as it
is.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from headrace.broker.auth.plain import MECHANISM as PLAIN
from headrace.broker.auth.user_file import UserFile
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.peer.connection import PeerConnection, PeerLost
from headrace.broker.peer.host_resolver import HostResolver
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.cluster.controller import Controller
from headrace.cluster.credential import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    salted_password,
)
from headrace.model.error import ConfigError
from headrace.model.ids import BrokerId
from headrace.wire.api import ApiKey
from headrace.wire.scram import ScramClient, ScramRefused

if TYPE_CHECKING:
    from headrace.broker.network.tls import Tls

log = structlog.get_logger(__name__)

USER_FILE = "headrace.inter.broker.user.file"
_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 2
_LOGIN_SECONDS = 10.0
_SALT_BYTES = 24


class PeerDenied(PeerLost):
    """The other broker does not let this one in."""


@dataclass(frozen=True, slots=True)
class PeerLogin:
    """The user as which a broker logs in to another one."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    async def run(self, connection: PeerConnection) -> None:
        """Log in on a new connection.

        Raises:
            PeerDenied: the other broker refused it, or does not know the password itself.
        """
        asked = {"mechanism": self.mechanism}
        answer = await connection.call(
            ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, asked, _LOGIN_SECONDS
        )
        if answer.error_code:
            raise PeerDenied(f"it does not take {self.mechanism}: see sasl.enabled.mechanisms")
        if self.mechanism == PLAIN:
            await self._step(connection, f"\0{self.user}\0{self.password}".encode())
            return
        scram = ScramClient(self.mechanism, self.user, self.password, max_iterations=MAX_ITERATIONS)
        challenge = await self._step(connection, scram.first())
        try:
            scram.check(await self._step(connection, scram.final(challenge)))
        except ScramRefused as refused:
            raise PeerDenied(str(refused)) from refused

    async def _step(self, connection: PeerConnection, token: bytes) -> bytes:
        body = {"auth_bytes": token}
        answer = await connection.call(
            ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, body, _LOGIN_SECONDS
        )
        if answer.error_code:
            raise PeerDenied(f"it does not let {self.user!r} in: {answer.error_message}")
        return bytes(answer.auth_bytes)

    def ensure_known(self, controller: Controller) -> None:
        """Put a SCRAM user that is not there yet into the cluster's state."""
        key = (self.user, self.mechanism)
        if self.mechanism == PLAIN or key in controller.state.credentials:
            return
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = salted_password(self.password, salt, MIN_ITERATIONS, self.mechanism)
        controller.put_credential(
            ScramCredential.of(
                user=self.user,
                mechanism=self.mechanism,
                salt=salt,
                salted_password=salted,
                iterations=MIN_ITERATIONS,
            )
        )


class PeerConnector:
    """Makes connections to other brokers. Lives on the event loop."""

    def __init__(
        self, settings: BrokerSettings, find: Callable[[BrokerId], BrokerRecord | None]
    ) -> None:
        """
        Args:
            find: returns a broker that is running, by its id.

        Raises:
            ConfigError: the listener asks for a login, and no user is configured for it; or one
                speaks TLS, and there are no certificates.
        """
        self._find = find
        self._listener = settings.inter_broker_listener
        self._resolver = HostResolver()
        self.login: PeerLogin | None = None
        self.tls = _tls(settings)
        alone = not settings["zookeeper.connect"]
        if self._listener is not None and self._listener.authenticates and not alone:
            self.login = _login(settings)

    async def connect(self, broker_id: BrokerId, *, limit_bytes: int = 1 << 30) -> PeerConnection:
        """Connect to a broker, and log in where its listener asks for that.

        Raises:
            PeerLost: it cannot be reached.
            PeerDenied: it does not let this broker in.
        """
        endpoint = self._endpoint(broker_id)
        connection = await self._open(endpoint, limit_bytes)
        if self.login is None:
            return connection
        try:
            await self.login.run(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, PeerDenied):
                log.error("peer_login_denied", broker=broker_id, reason=str(error))
            raise
        return connection

    async def _open(self, endpoint: Endpoint, limit_bytes: int) -> PeerConnection:
        host, port = endpoint.host, endpoint.port
        if self.tls is None or self._listener is None or not self._listener.encrypted:
            return await PeerConnection.open(host, port, self._resolver, limit_bytes=limit_bytes)
        from headrace.broker.peer.tls_connection import TlsPeerConnection

        return await TlsPeerConnection.open_with(
            self.tls, host, port, self._resolver, limit_bytes=limit_bytes
        )

    def _endpoint(self, broker_id: BrokerId) -> Endpoint:
        """Return the endpoint of the inter-broker listener's name, or else of its protocol."""
        record, own = self._find(broker_id), self._listener
        if record is None:
            raise PeerLost(f"broker {broker_id} is not running")
        if own is not None:
            found = record.endpoint(own.name) or record.endpoint_of(own.protocol)
            if found is not None and found.security_protocol == own.protocol:
                return found
        raise PeerLost(f"broker {broker_id} has no listener for other brokers that this one knows")


def _tls(settings: BrokerSettings) -> "Tls | None":
    """Load TLS only for a broker that has an encrypted listener."""
    if not any(each.encrypted for each in settings.listeners):
        return None
    from headrace.broker.network.tls import Tls

    return Tls(settings)


def _login(settings: BrokerSettings) -> PeerLogin:
    path: str | None = settings[USER_FILE]
    if path is None:
        raise ConfigError(
            f"brokers have to log in to each other: write with {USER_FILE} where the line "
            "user=password for that is"
        )
    user, password = UserFile(Path(path)).only_user()
    return PeerLogin(settings[_MECHANISM], user, password)
