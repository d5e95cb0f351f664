"""DeleteGroups (42), versions 0 to 2: groups without members go, and their offsets with them."""

from typing import Any

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

from headrace.broker.call import Call
from headrace.broker.fault import group_code
from headrace.broker.node import Broker
from headrace.groups.offset_message import DeleteGroupReply
from headrace.wire.api import ApiKey

API = ApiKey.DELETE_GROUPS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DeleteGroupsRequest)
    replies = [await _delete(broker, group_id) for group_id in dict.fromkeys(request.groups_names)]
    return {
        "results": [
            {"group_id": reply.group_id, "error_code": group_code(reply.error)} for reply in replies
        ]
    }


async def _delete(broker: Broker, group_id: str) -> DeleteGroupReply:
    return await broker.groups.answer(
        group_id,
        DeleteGroupReply(group_id=group_id),
        lambda registry, token, _: registry.delete_group(group_id, token),
    )
