"""ConsumerGroupHeartbeat (68), versions 0 and 1: the whole KIP-848 protocol in one request.

Version 1 brings regular expressions, and members that make their own id (KIP-1082).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call, milliseconds
from headrace.broker.error_mapping import group_code
from headrace.groups.consumer.message import ConsumerHeartbeat
from headrace.groups.topic import TopicIdPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.CONSUMER_GROUP_HEARTBEAT

_FIRST_OWN_MEMBER_ID = 1


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    if not broker.features.consumer_groups:
        return {
            "error_code": ErrorCode.unsupported_version,
            "error_message": "the consumer protocol is switched off: group.version is 0",
        }
    request = _request(broker, call)
    denied = _denied(broker, call, request)
    if denied:
        return {"error_code": denied, "error_message": "not allowed"}
    reply = await broker.groups.handle(request)
    return {
        "error_code": group_code(reply.error),
        "error_message": reply.message,
        "member_id": reply.member_id,
        "member_epoch": reply.member_epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
        "assignment": None
        if reply.assignment is None
        else {"topic_partitions": by_topic(reply.assignment)},
    }


def _denied(broker: Broker, call: Call, request: ConsumerHeartbeat) -> ErrorCode:
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return ErrorCode.group_authorization_failed
    names = request.subscribed_topic_names or ()
    if any(broker.guard.denies_topic(call, Operation.DESCRIBE, name) for name in names):
        return ErrorCode.topic_authorization_failed
    return ErrorCode.none


def by_topic(partitions: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    """Return partitions as the wire has them: grouped by topic."""
    grouped: dict[UUID, list[int]] = defaultdict(list)
    for each in sorted(partitions):
        grouped[each.topic_id].append(each.partition)
    return [{"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in grouped.items()]


def _request(broker: Broker, call: Call) -> ConsumerHeartbeat:
    body = call.read(ConsumerGroupHeartbeatRequest)
    return ConsumerHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=milliseconds(body.rebalance_timeout),
        subscribed_topic_names=body.subscribed_topic_names,
        subscribed_topic_regex=body.subscribed_topic_regex,
        server_assignor=body.server_assignor,
        owned=_owned(body.topic_partitions),
        client_id=call.client_id or "",
        client_host=call.client_host,
        can_get_member_id=call.version < _FIRST_OWN_MEMBER_ID,
        rights=broker.guard.topic_rights(call),
    )


def _owned(topics: tuple[TopicPartitions, ...] | None) -> frozenset[TopicIdPartition] | None:
    if topics is None:
        return None
    return frozenset(
        TopicIdPartition(topic.topic_id, index)
        for topic in topics
        if topic.topic_id is not None
        for index in topic.partitions
    )
