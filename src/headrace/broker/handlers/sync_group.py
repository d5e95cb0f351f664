"""SyncGroup (14), versions 0 to 5: the leader brings the assignment, each member gets its own."""

from typing import Any

from kio.schema.sync_group.v5.request import SyncGroupRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.classic.message import SyncRequest
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.SYNC_GROUP

_FIRST_PROTOCOL = 5  # KIP-559: from here on a member must name the protocol of its generation


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    body = call.read(SyncGroupRequest)
    if broker.guard.denies_group(call, Operation.READ, body.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    names_protocol = body.protocol_type is not None and body.protocol_name is not None
    if call.version >= _FIRST_PROTOCOL and not names_protocol:
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    request = SyncRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        generation=body.generation_id,
        protocol_type=body.protocol_type,
        protocol=body.protocol_name,
        assignments={each.member_id: bytes(each.assignment) for each in body.assignments},
    )
    reply = await broker.groups.handle(request)
    return {
        "error_code": group_code(reply.error),
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol,
        "assignment": reply.assignment,
    }
