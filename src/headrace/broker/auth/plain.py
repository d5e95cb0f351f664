"""SASL PLAIN (RFC 4616): the password itself, in one token.

The token is `[authorization id] NUL user NUL password` in UTF-8. On a listener without TLS every
machine in between can read it: SCRAM is the better choice.
"""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from headrace.broker.auth.exchange import SaslAuthenticationFailed, Step, refused

MECHANISM = "PLAIN"


class Plain:
    """The server's side of one PLAIN login.

    Args:
        passwords: by user.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def respond(self, token: bytes) -> Step:
        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:
            raise SaslAuthenticationFailed(
                "the PLAIN token is malformed: it is an authorization id, a user and a password "
                "with NUL between them"
            ) from None
        if not user or not password:
            raise SaslAuthenticationFailed("the PLAIN token has no user or no password")
        if authorization_id not in ("", user):
            raise SaslAuthenticationFailed("the authorization id differs from the user")
        known = self._passwords.get(user)
        # Compared even for an unknown user, and as digests, so that the time reveals nothing.
        same = compare_digest(_digest(password), _digest(known or ""))
        if known is None or not same:
            raise refused()
        return Step(user=user)


def _digest(password: str) -> bytes:
    return sha256(password.encode()).digest()
