"""SCRAM credentials (RFC 5802, KIP-554): what verifies a password without storing it."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import new, pbkdf2_hmac
from hmac import digest
from typing import Any, ClassVar

from headrace.cluster.rejection import ClusterError, Rejection

# KIP-554: fewer iterations are too weak, more would let one login hold a core.
MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """One user's credential for one mechanism."""

    KIND: ClassVar[str] = "scram"

    user: str
    mechanism: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of(
        cls, *, user: str, mechanism: str, salt: bytes, salted_password: bytes, iterations: int
    ) -> "ScramCredential":
        """Make one from what AlterUserScramCredentials sends: the password hashed by the client."""
        name = _HASHES[mechanism]
        client_key = digest(salted_password, b"Client Key", name)
        return cls(
            user=user,
            mechanism=mechanism,
            salt=salt,
            stored_key=new(name, client_key).digest(),
            server_key=digest(salted_password, b"Server Key", name),
            iterations=iterations,
        )

    def key(self) -> tuple[str, ...]:
        return (self.user, self.mechanism)

    def to_json(self) -> dict[str, Any]:
        return {
            "salt": b64encode(self.salt).decode(),
            "stored_key": b64encode(self.stored_key).decode(),
            "server_key": b64encode(self.server_key).decode(),
            "iterations": self.iterations,
        }

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "ScramCredential":
        user, mechanism = key
        return cls(
            user=user,
            mechanism=mechanism,
            salt=b64decode(fields["salt"]),
            stored_key=b64decode(fields["stored_key"]),
            server_key=b64decode(fields["server_key"]),
            iterations=fields["iterations"],
        )


def salted_password(password: str, salt: bytes, iterations: int, mechanism: str) -> bytes:
    """Return what a client computes from the password before it sends it."""
    return pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_problem(user: str, mechanism: str, iterations: int) -> Rejection | None:
    """Return why such a credential cannot be stored, or None when it can."""
    if not user:
        return Rejection(ClusterError.UNACCEPTABLE_CREDENTIAL, "a user's name cannot be empty")
    if mechanism not in _HASHES:
        return Rejection(
            ClusterError.UNSUPPORTED_SASL_MECHANISM,
            f"{mechanism!r} is not a mechanism: write one of {', '.join(_HASHES)}",
        )
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        return Rejection(
            ClusterError.UNACCEPTABLE_CREDENTIAL,
            f"{iterations} iterations are not possible: {MIN_ITERATIONS} to {MAX_ITERATIONS} are",
        )
    return None
