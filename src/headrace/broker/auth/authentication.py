"""SASL on a connection: from the mechanism a client chooses to its principal.

Rule 1: a failed attempt is answered after `connection.failed.authentication.delay.ms`, so that
guessing is slow, and closes the connection.
Rule 2: with `connections.max.reauth.ms` a session ends; a client authenticates again before that
(KIP-368), with the same mechanism and as the same user, or the connection is closed. From its new
SaslHandshake on it is served nothing else until it has authenticated: the attempt has no end of its
own, and would keep a session that has ended.
Rule 3: passwords and tokens are never logged, not even malformed ones.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import structlog

from headrace.broker.auth import plain, scram
from headrace.broker.auth.exchange import Exchange, SaslAuthenticationFailed, Step
from headrace.broker.auth.sasl_peer import SaslPeer
from headrace.broker.auth.session import Attempt, Failure, Session
from headrace.broker.auth.user_file import UserFile
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.limited_warning import LimitedWarning
from headrace.cluster.credential import ScramCredential
from headrace.model.clock import Clock
from headrace.model.error import ConfigError, PeerError

log = structlog.get_logger(__name__)

USERS_FILE = "headrace.sasl.plain.users.file"


class Authentication:
    """How clients prove who they are to this broker. Lives on the event loop."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.mechanisms: tuple[str, ...] = settings["sasl.enabled.mechanisms"]
        self.users: UserFile | None = None
        self._settings = settings
        self._clock = clock
        self._credentials: Mapping[tuple[str, str], ScramCredential] = {}
        self._failures = LimitedWarning(time.monotonic, log)
        path: str | None = settings[USERS_FILE]
        if plain.MECHANISM in self.mechanisms:
            if path is None:
                raise ConfigError(
                    f"sasl.enabled.mechanisms has PLAIN: write with {USERS_FILE} where its users "
                    "and passwords are"
                )
            self.users = UserFile(Path(path))

    def set_credentials(self, credentials: Mapping[tuple[str, str], ScramCredential]) -> None:
        self._credentials = credentials

    @property
    def _session_ms(self) -> int:
        return int(self._settings["connections.max.reauth.ms"])

    def may_begin(self, connection: SaslPeer) -> bool:
        """Return whether the client may send a SaslHandshake now."""
        busy = isinstance(connection.authentication, Attempt | Failure)
        if busy or not connection.listener.authenticates:
            return False
        return not connection.authenticated or self._session_ms > 0

    def begin(self, connection: SaslPeer, mechanism: str, *, raw: bool) -> None:
        """Expect tokens of the one of `mechanisms` that the client chose."""
        known = connection.authentication
        if isinstance(known, Session) and known.mechanism != mechanism:
            raise PeerError("a client changed its SASL mechanism when it authenticated again")
        connection.begin_authentication(Attempt(mechanism, self._exchange(mechanism), raw))

    def _exchange(self, mechanism: str) -> Exchange:
        if mechanism == plain.MECHANISM:
            assert self.users is not None
            return plain.Plain(self.users.passwords)
        return scram.Scram(mechanism, lambda user, kind: self._credentials.get((user, kind)))

    def respond(self, connection: SaslPeer, attempt: Attempt, token: bytes) -> Step:
        """Return the answer to a token; the last one gives the connection its principal.

        Raises:
            SaslAuthenticationFailed: the caller ends the connection with `fail`.
        """
        step = attempt.exchange.respond(token)
        if step.user is None:
            return step
        principal = f"User:{step.user}"
        if connection.authenticated and connection.principal != principal:
            raise SaslAuthenticationFailed("a client cannot become another user on its connection")
        ends_ms = self._clock.monotonic_ms() + self._session_ms if self._session_ms else None
        connection.authenticate(principal, Session(attempt.mechanism, ends_ms))
        return step

    @property
    def session_lifetime_ms(self) -> int:
        """How long a session lasts, as SaslAuthenticate returns it; 0 is for ever."""
        return self._session_ms

    def check_session(self, connection: SaslPeer) -> None:
        """Raise `PeerError` unless an authenticated client has a session that goes on (rule 2)."""
        session = connection.authentication
        if not isinstance(session, Session):
            raise PeerError(
                f"{connection.principal} sent a request before it had authenticated again"
            )
        if session.ends_ms is not None and self._clock.monotonic_ms() > session.ends_ms:
            raise PeerError(f"the session of {connection.principal} ended")

    async def fail(self, connection: SaslPeer, reason: str) -> None:
        """Wait (rule 1); the connection closes after the answer that the caller sends next."""
        self._failures.warn("authentication_failed", peer=connection.peer_host, reason=reason)
        connection.refuse_authentication()
        await asyncio.sleep(self._settings["connection.failed.authentication.delay.ms"] / 1000)
