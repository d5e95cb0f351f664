"""DeleteGroups (42), versions 0 to 2: delete groups without members, and their offsets."""

from typing import Any

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.offset.message import DeleteGroupRequest
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DELETE_GROUPS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DeleteGroupsRequest)
    return {
        "results": [
            {"group_id": group_id, "error_code": await _delete(broker, call, group_id)}
            for group_id in dict.fromkeys(request.groups_names)
        ]
    }


async def _delete(broker: Broker, call: Call, group_id: str) -> ErrorCode:
    if broker.guard.denies_group(call, Operation.DELETE, group_id):
        return ErrorCode.group_authorization_failed
    reply = await broker.groups.handle(DeleteGroupRequest(group_id=group_id))
    return group_code(reply.error)
