"""SyncGroup (14), versions 0 to 5: bring the assignment as the leader, or wait for one's own."""

from typing import Any

from kio.schema.sync_group.v5.request import SyncGroupRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.classic.message import SyncReply, SyncRequest
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.SYNC_GROUP

_FIRST_PROTOCOL = 5  # KIP-559: from here on a member must say what it takes as agreed


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(SyncGroupRequest)
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    says_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= _FIRST_PROTOCOL and not says_protocol:
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    wanted = SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
    )
    reply = await broker.groups.answer(
        wanted.group_id,
        SyncReply(),
        lambda registry, token, now_ms: registry.sync(wanted, token, now_ms),
    )
    return {
        "error_code": group_code(reply.error),
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol,
        "assignment": reply.assignment,
    }
