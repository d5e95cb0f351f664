"""Authentication, against a broker's side that is played by the RFC's rules."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.error import AuthenticationFailed
from headrace.client.network.sasl import authenticate
from headrace.client.settings import SaslSettings
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode


class Server:
    """The broker's side of SCRAM with one user."""

    lifetime = timedelta(0)

    def __init__(self, mechanism: str, password: str, *, honest: bool = True) -> None:
        self.mechanism = mechanism
        self.digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self.password = password
        self.honest = honest
        self.seen: list[bytes] = []
        self._first = ""

    def call(self, api: ApiKey, body: dict[str, Any]) -> Any:
        if api is ApiKey.SASL_HANDSHAKE:
            known = body["mechanism"] == self.mechanism
            code = ErrorCode.none if known else ErrorCode.unsupported_sasl_mechanism
            return SimpleNamespace(error_code=code, mechanisms=(self.mechanism,))
        message = body["auth_bytes"]
        self.seen.append(message)
        if self.mechanism == "PLAIN":
            return self._answer(b"", message == b"\0me\0" + self.password.encode())
        return self._challenge(message) if len(self.seen) == 1 else self._verify(message)

    def _challenge(self, message: bytes) -> Any:
        self._first = message.decode().removeprefix("n,,")
        nonce = self._first.partition(",r=")[2] + "server"
        self._challenge_text = f"r={nonce},s={b64encode(b'salt').decode()},i=4096"
        return self._answer(self._challenge_text.encode(), True)

    def _verify(self, message: bytes) -> Any:
        text, _, proof = message.decode().rpartition(",p=")
        signed = ",".join((self._first, self._challenge_text, text)).encode()
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), b"salt", 4096)
        key = hmac.digest(salted, b"Client Key", self.digest)
        stored = hashlib.new(self.digest, key).digest()
        signature = hmac.digest(stored, signed, self.digest)
        expected = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self.digest)
        final = hmac.digest(server_key, signed, self.digest) if self.honest else b"lie"
        return self._answer(b"v=" + b64encode(final), b64decode(proof) == expected)

    def _answer(self, data: bytes, fine: bool) -> Any:
        code = ErrorCode.none if fine else ErrorCode.sasl_authentication_failed
        return SimpleNamespace(
            error_code=code,
            error_message=None,
            auth_bytes=data,
            session_lifetime=self.lifetime,
        )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_right_password_is_taken(mechanism: str) -> None:
    server = Server(mechanism, "secret")
    authenticate(server.call, SaslSettings(mechanism=mechanism, username="me", password="secret"))
    assert server.seen


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(mechanism: str) -> None:
    server = Server(mechanism, "secret")
    with pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
        authenticate(
            server.call, SaslSettings(mechanism=mechanism, username="me", password="guess")
        )


def test_scram_never_sends_the_password() -> None:
    server = Server("SCRAM-SHA-256", "secret")
    authenticate(
        server.call, SaslSettings(mechanism="SCRAM-SHA-256", username="me", password="secret")
    )
    assert not any(b"secret" in message for message in server.seen)


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    server = Server("SCRAM-SHA-256", "secret", honest=False)
    with pytest.raises(AuthenticationFailed, match="could not prove"):
        authenticate(
            server.call, SaslSettings(mechanism="SCRAM-SHA-256", username="me", password="secret")
        )


def test_commas_in_a_name_are_escaped() -> None:
    server = Server("SCRAM-SHA-256", "secret")
    sasl = SaslSettings(mechanism="SCRAM-SHA-256", username="a,b=c", password="secret")
    authenticate(server.call, sasl)
    assert server.seen[0].startswith(b"n,,n=a=2Cb=3Dc,r=")


def test_a_mechanism_that_is_not_offered_is_named_with_those_that_are() -> None:
    server = Server("SCRAM-SHA-256", "secret")
    with pytest.raises(AuthenticationFailed, match="it offers SCRAM-SHA-256"):
        authenticate(server.call, SaslSettings(mechanism="PLAIN", username="me", password="secret"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(hours=1)])
def test_it_says_whether_the_login_ends(mechanism: str, lifetime: timedelta) -> None:
    server = Server(mechanism, "secret")
    server.lifetime = lifetime
    sasl = SaslSettings(mechanism=mechanism, username="me", password="secret")

    assert authenticate(server.call, sasl) is bool(lifetime)
