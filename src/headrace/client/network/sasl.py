"""The client's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, 7677).

The exchange runs inside SaslAuthenticate requests (KIP-152), after SaslHandshake has agreed on the
mechanism.
"""

from collections.abc import Callable
from typing import Any

from headrace.client.error import AuthenticationFailed
from headrace.client.settings import SaslSettings
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.scram import ScramClient, ScramRefused

Call = Callable[[ApiKey, dict[str, Any]], Any]


def authenticate(call: Call, sasl: SaslSettings) -> bool:
    """Run the exchange of the mechanism that `sasl` names.

    Returns:
        Whether the broker will ask for another login later (KIP-368), by closing the connection.

    Raises:
        AuthenticationFailed: the broker refused the mechanism or the credentials.
    """
    answer = call(ApiKey.SASL_HANDSHAKE, {"mechanism": sasl.mechanism})
    if answer.error_code is not ErrorCode.none:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationFailed(
            f"the broker does not take {sasl.mechanism}: it offers {offered}; set sasl.mechanism"
        )
    if sasl.mechanism == "PLAIN":
        answer = _step(call, b"\0%b\0%b" % (sasl.username.encode(), sasl.password.encode()))
        return bool(answer.session_lifetime)
    login = ScramClient(sasl.mechanism, sasl.username, sasl.password)
    challenge = bytes(_step(call, login.first()).auth_bytes)
    answer = _step(call, login.final(challenge))
    try:
        login.check(bytes(answer.auth_bytes))
    except ScramRefused as refused:
        raise AuthenticationFailed(str(refused)) from refused
    return bool(answer.session_lifetime)


def _step(call: Call, message: bytes) -> Any:
    answer = call(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message})
    if answer.error_code is not ErrorCode.none:
        raise AuthenticationFailed(
            f"authentication failed: {answer.error_message or answer.error_code.name.upper()}"
        )
    return answer
