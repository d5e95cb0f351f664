"""Heartbeat (12), versions 0 to 4: a member of a classic group lives, and learns of a rebalance."""

from typing import Any

from kio.schema.heartbeat.v4.request import HeartbeatRequest as Wire

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.classic.message import HeartbeatReply, HeartbeatRequest
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.HEARTBEAT


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(Wire)
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    beat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    reply = await broker.groups.answer(
        beat.group_id,
        HeartbeatReply(),
        lambda registry, token, now_ms: registry.heartbeat(beat, token, now_ms),
    )
    return {"error_code": group_code(reply.error)}
