"""What every SASL mechanism is to the broker: tokens in, tokens out, and in the end a user."""

from dataclasses import dataclass
from typing import Protocol

from headrace.model.error import PeerError


class SaslAuthenticationFailed(PeerError):
    """The client did not prove who it is.

    The message goes to the client: it never holds a password, and never reveals whether the user or
    the password was wrong.
    """


@dataclass(frozen=True, slots=True)
class Step:
    """The token to send back, and the user once the client has proved who it is."""

    token: bytes = b""
    user: str | None = None


class Exchange(Protocol):
    """One client's authentication. It is used for one attempt only."""

    def respond(self, token: bytes) -> Step:
        """Return the answer to the client's next token.

        Raises:
            SaslAuthenticationFailed: it is malformed, out of turn, or wrong.
        """


def refused() -> SaslAuthenticationFailed:
    """Return the failure that is the same for an unknown user and for a wrong password."""
    return SaslAuthenticationFailed("authentication failed: the user or the password is wrong")
