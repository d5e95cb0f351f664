"""SaslAuthenticate (36), versions 0 to 2: the tokens of the chosen mechanism (KIP-152)."""

from struct import Struct
from typing import Any

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

from headrace.broker.auth.exchange import SaslAuthenticationFailed
from headrace.broker.auth.session import Attempt
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.framing import Frame

API = ApiKey.SASL_AUTHENTICATE

_SIZE = Struct(">i")


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    token = bytes(call.read(SaslAuthenticateRequest).auth_bytes)
    connection, authentication = call.connection, broker.authentication
    attempt = connection.authentication
    if not isinstance(attempt, Attempt) or attempt.raw:
        return {
            "error_code": ErrorCode.illegal_sasl_state,
            "error_message": "SaslAuthenticate came without a SaslHandshake before it",
        }
    try:
        step = authentication.respond(connection, attempt, token)
    except SaslAuthenticationFailed as error:
        await authentication.fail(connection, str(error))
        return {
            "error_code": ErrorCode.sasl_authentication_failed,
            "error_message": str(error),
        }
    lifetime_ms = 0 if step.user is None else authentication.session_lifetime_ms
    return {"auth_bytes": step.token, "session_lifetime": lifetime_ms}


def answer_raw_token(
    broker: Broker, connection: Connection, attempt: Attempt, frame: Frame
) -> Answer:
    """Answer a token without a header; a wrong one ends the connection, without an error code."""
    try:
        step = broker.authentication.respond(connection, attempt, bytes(frame))
    except SaslAuthenticationFailed as error:
        return broker.loop.create_task(_end(broker, connection, str(error)))
    return (_SIZE.pack(len(step.token)) + step.token,)


async def _end(broker: Broker, connection: Connection, reason: str) -> Parts | None:
    await broker.authentication.fail(connection, reason)
    return None
