"""What every SASL mechanism is to the broker: tokens in, tokens out, at last a user."""

from dataclasses import dataclass
from typing import Protocol

from headrace.model.error import PeerError


class AuthenticationFailed(PeerError):
    """The client did not prove who it is.

    The message goes to the client: it never holds a password, and never tells whether the user or
    the password was wrong.
    """


@dataclass(frozen=True, slots=True)
class Step:
    """What to send back, and once the client has proved it, who it is."""

    token: bytes = b""
    user: str | None = None


class Exchange(Protocol):
    """One client's authentication. It is used for one attempt only."""

    def respond(self, token: bytes) -> Step:
        """Take the client's next token.

        Raises:
            AuthenticationFailed: it is malformed, out of turn, or wrong.
        """


def refused() -> AuthenticationFailed:
    """The same words for an unknown user and for a wrong password."""
    return AuthenticationFailed("authentication failed: the user or the password is wrong")
