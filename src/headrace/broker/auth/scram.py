"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side.

Theory of operation
-------------------
Neither the password nor anything that could stand for it crosses the wire:

    client  n,,n=anna,r=<client nonce>
    server  r=<client nonce + ours>,s=<salt>,i=<iterations>
    client  c=biws,r=<both nonces>,p=<client key XOR HMAC(stored key, everything said so far)>
    server  v=<HMAC(server key, everything said so far)>

Rule 1: what the client sends is parsed once, by the one pattern that the message may have.
Rule 2: an unknown user is challenged too, with a salt that is always the same for that name, so
that an outsider cannot find out which users exist. The proof then fails like a wrong password.
Rule 3: keys and nonces are compared in constant time.
"""

import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from hashlib import new
from hmac import compare_digest, digest

from headrace.broker.auth.exchange import SaslAuthenticationFailed, Step, refused
from headrace.cluster.credential import MIN_ITERATIONS, ScramCredential

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_CLIENT_FIRST = re.compile(
    r"(?P<header>[ny],(?:a=(?P<authorization>(?:[^,=]|=2C|=3D)+))?,)"
    r"(?P<bare>n=(?P<user>(?:[^,=]|=2C|=3D)+),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)
_CLIENT_FINAL = re.compile(
    r"(?P<unproved>c=(?P<channel>[A-Za-z0-9/+=]+),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)"
    r"(?:,[A-Za-z]+=[^,]+)*),p=(?P<proof>[A-Za-z0-9/+=]+)"
)

# Makes the salts of users who do not exist (rule 2); another one after each start is good enough.
_SECRET = secrets.token_bytes(32)

Lookup = Callable[[str, str], ScramCredential | None]
"""The credential of (user, mechanism)."""


class Scram:
    """The server's side of one SCRAM login."""

    def __init__(
        self, mechanism: str, lookup: Lookup, make_nonce: Callable[[], str] | None = None
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._lookup = lookup
        self._make_nonce = make_nonce or (lambda: secrets.token_urlsafe(24))
        self._user: str | None = None
        self._credential: ScramCredential | None = None
        self._header = self._own_nonce = self._said = ""

    def respond(self, token: bytes) -> Step:
        if self._user is None:
            return self._answer_first(token)
        return self._answer_final(token)

    def _answer_first(self, token: bytes) -> Step:
        match = _CLIENT_FIRST.fullmatch(_text(token))
        if match is None:
            raise SaslAuthenticationFailed("the first SCRAM message of the client is malformed")
        user = _unescape(match["user"])
        if match["authorization"] is not None and _unescape(match["authorization"]) != user:
            raise SaslAuthenticationFailed("the authorization id differs from the user")
        if "tokenauth=true" in match["extensions"].split(","):
            raise SaslAuthenticationFailed("delegation tokens are not supported: use a password")
        self._user, self._header = user, match["header"]
        self._credential = self._lookup(user, self._mechanism)
        self._own_nonce = self._make_nonce()
        salt, iterations = self._challenge(user)
        answer = f"r={match['nonce']}{self._own_nonce},s={b64encode(salt).decode()},i={iterations}"
        self._said = f"{match['bare']},{answer}"
        return Step(answer.encode())

    def _challenge(self, user: str) -> tuple[bytes, int]:
        if self._credential is not None:
            return self._credential.salt, self._credential.iterations
        return digest(_SECRET, user.encode(), "sha256")[:24], MIN_ITERATIONS

    def _answer_final(self, token: bytes) -> Step:
        match = _CLIENT_FINAL.fullmatch(_text(token))
        if match is None:
            raise SaslAuthenticationFailed("the last SCRAM message of the client is malformed")
        if _decoded(match["channel"]) != self._header.encode():
            raise SaslAuthenticationFailed("the channel binding is not the one that was announced")
        # Our part must come back at the end, which is what Kafka asks for. Older librdkafka repeats
        # its own part before the two: asking for exactly both would lock it out.
        ended = match["nonce"][-len(self._own_nonce) :]
        if not compare_digest(ended.encode(), self._own_nonce.encode()):
            raise SaslAuthenticationFailed("the nonce is not the one that was agreed on")
        said = f"{self._said},{match['unproved']}".encode()
        credential = self._credential
        if credential is None or not self._proves(credential, said, _decoded(match["proof"])):
            raise refused()
        signature = digest(credential.server_key, said, self._hash)
        return Step(b"v=" + b64encode(signature), credential.user)

    def _proves(self, credential: ScramCredential, said: bytes, proof: bytes) -> bool:
        signature = digest(credential.stored_key, said, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return compare_digest(new(self._hash, client_key).digest(), credential.stored_key)


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("a SCRAM message is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise SaslAuthenticationFailed("a SCRAM message holds bad Base64") from None


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
