"""LeaveGroup (13), versions 0 to 5: one member leaves, or an administrator removes several."""

from typing import Any

from kio.schema.leave_group.v5.request import LeaveGroupRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.classic.message import LeaveRequest, LeavingMember
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.LEAVE_GROUP

_FIRST_LIST = 3  # KIP-345


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = _request(call)
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    reply = await broker.groups.handle(request)
    if call.version < _FIRST_LIST:
        errors = (reply.error, *(member.error for member in reply.members))
        return {"error_code": group_code(next((each for each in errors if each), None))}
    return {
        "error_code": group_code(reply.error),
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "error_code": group_code(member.error),
            }
            for member in reply.members
        ],
    }


def _request(call: Call) -> LeaveRequest:
    body = call.read(LeaveGroupRequest)
    if call.version < _FIRST_LIST:
        members: tuple[LeavingMember, ...] = (LeavingMember(member_id=call.body.member_id),)
    else:
        members = tuple(
            LeavingMember(member_id=each.member_id, instance_id=each.group_instance_id)
            for each in body.members
        )
    return LeaveRequest(group_id=body.group_id, members=members)
