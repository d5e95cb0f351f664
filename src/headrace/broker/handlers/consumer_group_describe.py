"""ConsumerGroupDescribe (69), versions 0 and 1: the members of KIP-848 groups."""

from collections.abc import Iterable
from typing import Any

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

from headrace.broker.auth.resource import UNKNOWN_OPERATIONS, Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.broker.handlers.consumer_group_heartbeat import by_topic
from headrace.broker.loop_turn import LoopTurn
from headrace.groups.description import ConsumerDescription
from headrace.groups.error import GroupError, Refusal
from headrace.groups.topic import TopicIdPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.CONSUMER_GROUP_DESCRIBE

# A member of the classic protocol is in the group while it passes from one to the other.
_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ConsumerGroupDescribeRequest)
    with_operations = request.include_authorized_operations
    groups, turn = [], LoopTurn()
    for group_id in dict.fromkeys(request.group_ids):
        groups.append(await _answer(broker, call, group_id, with_operations=with_operations))
        await turn.pause_if_over()
    return {"groups": groups}


async def _answer(
    broker: Broker, call: Call, group_id: str, *, with_operations: bool
) -> dict[str, Any]:
    if not broker.features.consumer_groups:
        return {"group_id": group_id, "error_code": ErrorCode.unsupported_version}
    if broker.guard.denies_group(call, Operation.DESCRIBE, group_id):
        return {"group_id": group_id, "error_code": ErrorCode.group_authorization_failed}
    try:
        if not group_id:
            raise Refusal(GroupError.INVALID_GROUP_ID, "the group id is empty")
        group = (await broker.groups.registry(group_id)).describe_consumer(group_id)
        if group is None:
            raise Refusal(GroupError.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
    except Refusal as refusal:
        return {
            "group_id": group_id,
            "error_code": group_code(refusal.error),
            "error_message": refusal.message,
        }
    if broker.guard.authorizer is not None and any(
        broker.guard.denies_topic(call, Operation.DESCRIBE, name) for name in _topics(broker, group)
    ):
        return {
            "group_id": group_id,
            "error_code": ErrorCode.topic_authorization_failed,
            "error_message": "the group reads topics that you may not describe",
        }
    operations = UNKNOWN_OPERATIONS
    if with_operations:
        operations = broker.guard.operations(call, ResourceType.GROUP, group_id)
    return _describe(broker, group) | {"authorized_operations": operations}


def _topics(broker: Broker, group: ConsumerDescription) -> set[str]:
    """Return the topics that the members subscribe to or have partitions of."""
    names: set[str] = set()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        for each in (*member.assignment, *member.target_assignment):
            known = broker.topics.by_id(each.topic_id)
            if known is not None:
                names.add(known.name)
    return names


def _describe(broker: Broker, group: ConsumerDescription) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": member.member_epoch,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "subscribed_topic_names": member.subscribed_topic_names,
                "subscribed_topic_regex": member.subscribed_topic_regex,
                "assignment": _assignment(broker, member.assignment),
                "target_assignment": _assignment(broker, member.target_assignment),
                "member_type": _CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
            }
            for member in group.members
        ],
    }


def _assignment(broker: Broker, partitions: Iterable[TopicIdPartition]) -> dict[str, Any]:
    """Return partitions with their topics' names, without topics deleted meanwhile."""
    topics = []
    for topic in by_topic(partitions):
        known = broker.topics.by_id(topic["topic_id"])
        if known is not None:
            topics.append(topic | {"topic_name": known.name})
    return {"topic_partitions": topics}
