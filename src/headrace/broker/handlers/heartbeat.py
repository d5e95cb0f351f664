"""Heartbeat (12), versions 0 to 4: keep a classic member's session, and report a rebalance."""

from typing import Any

from kio.schema.heartbeat.v4.request import HeartbeatRequest as HeartbeatBody

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.classic.message import HeartbeatRequest
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.HEARTBEAT


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    body = call.read(HeartbeatBody)
    if broker.guard.denies_group(call, Operation.READ, body.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    request = HeartbeatRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        generation=body.generation_id,
    )
    reply = await broker.groups.handle(request)
    return {"error_code": group_code(reply.error)}
