"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the client's side.

SCRAM proves both sides: a broker that does not know the password cannot sign the last message, and
is refused. The messages travel inside SaslAuthenticate requests (KIP-152).
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from headrace.model.error import PeerError

# RFC 5802 asks for 4096 at least; far more than that is a broker that wants to keep us busy.
_MAX_ITERATIONS = 10_000_000
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramRefused(PeerError):
    """The broker's side of the exchange does not prove that it knows the password."""


class ScramClient:
    """One login: send `first`, then what `final` makes of its answer, then `check` the last.

    Args:
        max_iterations: a broker may ask for so much work.
    """

    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        *,
        max_iterations: int = _MAX_ITERATIONS,
    ) -> None:
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._max_iterations = max_iterations
        self._nonce = secrets.token_urlsafe(24)
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the proof that answers the broker's challenge.

        Raises:
            ScramRefused: the challenge cannot be read, or is not for this login.
        """
        server_first = challenge.decode(errors="replace")
        salt, iterations, nonce = self._read(server_first)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        without_proof = f"c=biws,r={nonce}"
        signed = ",".join((self._bare, server_first, without_proof)).encode()
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = hmac.digest(stored_key, signed, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._signature = hmac.digest(server_key, signed, self._hash)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def check(self, last: bytes) -> None:
        """Verify the broker's last message.

        Raises:
            ScramRefused: the broker does not know the password.
        """
        if not hmac.compare_digest(last, b"v=" + b64encode(self._signature)):
            raise ScramRefused("the broker could not prove that it knows our password")

    def _read(self, message: str) -> tuple[bytes, int, str]:
        """Return salt, iterations and nonce of the server's first message."""
        fields = dict(part.split("=", 1) for part in message.split(",") if "=" in part)
        try:
            salt, iterations = b64decode(fields["s"], validate=True), int(fields["i"])
            nonce = fields["r"]
        except (KeyError, ValueError, Base64Error) as error:
            raise ScramRefused("the broker's SCRAM challenge cannot be read") from error
        if not nonce.startswith(self._nonce) or not 0 < iterations <= self._max_iterations:
            raise ScramRefused("the broker's SCRAM challenge is not an answer to ours")
        return salt, iterations, nonce
