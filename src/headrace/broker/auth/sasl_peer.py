"""What authentication needs of a client's connection."""

from typing import Protocol

from headrace.broker.auth.session import Attempt, Failure, Session
from headrace.broker.config.listener import Listener


class SaslPeer(Protocol):
    """A client that authenticates with SASL: `network.connection.Connection` is one."""

    @property
    def listener(self) -> Listener: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def principal(self) -> str: ...

    @property
    def authenticated(self) -> bool: ...

    @property
    def authentication(self) -> Attempt | Failure | Session | None:
        """How far SASL is; None before the handshake."""

    def begin_authentication(self, attempt: Attempt) -> None:
        """Expect the tokens of the mechanism that the client chose."""

    def authenticate(self, principal: str, session: Session) -> None:
        """Serve the client as `principal`, and take requests of any size from it."""

    def refuse_authentication(self) -> None:
        """Take nothing more from the client, and close once it has its answer."""
