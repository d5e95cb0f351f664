"""SaslHandshake (17), versions 0 and 1: the client chooses a mechanism."""

from typing import Any

from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from headrace.broker.auth import plain
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.SASL_HANDSHAKE

_RAW_TOKENS = 0  # after version 0 tokens come without a header around them


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    mechanism = call.read(SaslHandshakeRequest).mechanism
    connection, authentication = call.connection, broker.authentication
    if not authentication.may_begin(connection):
        return {"error_code": ErrorCode.illegal_sasl_state}
    known = list(authentication.mechanisms)
    if mechanism not in known:
        await authentication.fail(connection, "it chose a mechanism that is not enabled")
        return {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": known}
    if mechanism == plain.MECHANISM and authentication.users is not None:
        await broker.in_thread(authentication.users.refresh)
    authentication.begin(connection, mechanism, raw=call.version == _RAW_TOKENS)
    return {"mechanisms": known}
