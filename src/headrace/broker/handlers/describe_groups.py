"""DescribeGroups (15), versions 0 to 6: the members of classic groups.

Up to version 5 a group that does not exist is Dead and no error (KIP-1043 changed that).
"""

from typing import Any

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest

from headrace.broker.auth.resource import UNKNOWN_OPERATIONS, Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.broker.loop_turn import LoopTurn
from headrace.groups.classic.state import ClassicState
from headrace.groups.description import ClassicDescription
from headrace.groups.error import Refusal
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_GROUPS

_FIRST_NOT_FOUND = 6


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeGroupsRequest)
    with_operations = request.include_authorized_operations
    groups, turn = [], LoopTurn()
    for group_id in dict.fromkeys(request.groups):
        operations = UNKNOWN_OPERATIONS
        if with_operations:
            operations = _operations(broker, call, group_id)
        answer = await _answer(broker, call, group_id)
        groups.append(answer | {"authorized_operations": operations})
        await turn.pause_if_over()
    return {"groups": groups}


def _operations(broker: Broker, call: Call, group_id: str) -> int:
    if broker.guard.denies_group(call, Operation.DESCRIBE, group_id):
        return UNKNOWN_OPERATIONS
    return broker.guard.operations(call, ResourceType.GROUP, group_id)


async def _answer(broker: Broker, call: Call, group_id: str) -> dict[str, Any]:
    if broker.guard.denies_group(call, Operation.DESCRIBE, group_id):
        return {"group_id": group_id, "error_code": ErrorCode.group_authorization_failed}
    try:
        group = (await broker.groups.registry(group_id)).describe_classic(group_id)
    except Refusal as refusal:
        return {
            "group_id": group_id,
            "error_code": group_code(refusal.error),
            "error_message": refusal.message,
        }
    if group is None:
        return _missing(call, group_id)
    return _describe(group)


def _missing(call: Call, group_id: str) -> dict[str, Any]:
    dead = {"group_id": group_id, "group_state": ClassicState.DEAD.value}
    if call.version < _FIRST_NOT_FOUND:
        return dead
    return dead | {
        "error_code": ErrorCode.group_id_not_found,
        "error_message": f"there is no classic group {group_id}",
    }


def _describe(group: ClassicDescription) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }
