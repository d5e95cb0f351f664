"""Who we are, told to a broker: PLAIN (RFC 4616) and SCRAM (RFC 5802, 7677).

The exchange runs inside SaslAuthenticate requests (KIP-152), after SaslHandshake has agreed on the
mechanism. SCRAM proves both sides: a broker that does not know the password cannot sign the last
message, and is refused.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Any

from headrace.client.error import AuthenticationFailed
from headrace.client.settings import Sasl
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

Call = Callable[[ApiKey, dict[str, Any]], Any]

# RFC 5802 asks for 4096 at least; far more than that is a broker that wants to keep us busy.
_MAX_ITERATIONS = 10_000_000


def authenticate(call: Call, sasl: Sasl) -> None:
    """Run the exchange that `sasl` names.

    Raises:
        AuthenticationFailed: in one sentence.
    """
    answer = call(ApiKey.SASL_HANDSHAKE, {"mechanism": sasl.mechanism})
    if answer.error_code is not ErrorCode.none:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationFailed(
            f"the broker does not take {sasl.mechanism}: it offers {offered}; set sasl.mechanism"
        )
    if sasl.mechanism == "PLAIN":
        _step(call, b"\0%b\0%b" % (sasl.username.encode(), sasl.password.encode()))
    else:
        _scram(call, sasl)


def _step(call: Call, message: bytes) -> bytes:
    answer = call(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message})
    if answer.error_code is not ErrorCode.none:
        raise AuthenticationFailed(
            f"authentication failed: {answer.error_message or answer.error_code.name.upper()}"
        )
    return bytes(answer.auth_bytes)


def _scram(call: Call, sasl: Sasl) -> None:
    digest = "sha256" if sasl.mechanism == "SCRAM-SHA-256" else "sha512"
    name = sasl.username.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24)
    client_first = f"n={name},r={nonce}"
    server_first = _step(call, f"n,,{client_first}".encode()).decode(errors="replace")
    salt, iterations, server_nonce = _read_challenge(server_first, nonce)
    salted = hashlib.pbkdf2_hmac(digest, sasl.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={server_nonce}"
    signed = ",".join((client_first, server_first, without_proof)).encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = _step(call, f"{without_proof},p={b64encode(proof).decode()}".encode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(final, b"v=" + b64encode(expected)):
        raise AuthenticationFailed("the broker could not prove that it knows our password")


def _read_challenge(message: str, nonce: str) -> tuple[bytes, int, str]:
    """Salt, iterations and nonce of the server's first message."""
    fields = dict(part.split("=", 1) for part in message.split(",") if "=" in part)
    try:
        salt, iterations = b64decode(fields["s"], validate=True), int(fields["i"])
        server_nonce = fields["r"]
    except (KeyError, ValueError, Base64Error) as error:
        raise AuthenticationFailed("the broker's SCRAM challenge cannot be read") from error
    if not server_nonce.startswith(nonce) or not 0 < iterations <= _MAX_ITERATIONS:
        raise AuthenticationFailed("the broker's SCRAM challenge is not an answer to ours")
    return salt, iterations, server_nonce
