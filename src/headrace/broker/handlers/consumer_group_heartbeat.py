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
from headrace.groups.consumer.message import ConsumerHeartbeat, ConsumerHeartbeatReply
from headrace.groups.regex import load_engine
from headrace.groups.topic import TopicIdPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.CONSUMER_GROUP_HEARTBEAT

_FIRST_OWN_MEMBER_ID = 1


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    beat = _beat(call)
    denied = _denied(broker, call, beat)
    if denied:
        return {"error_code": denied, "error_message": "not allowed"}
    if beat.subscribed_topic_regex:
        await broker.in_thread(load_engine)
    reply = await broker.groups.answer(
        beat.group_id,
        ConsumerHeartbeatReply(member_id=beat.member_id or None, member_epoch=beat.member_epoch),
        lambda registry, token, now_ms: registry.consumer_heartbeat(beat, token, now_ms),
    )
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


def _denied(broker: Broker, call: Call, beat: ConsumerHeartbeat) -> ErrorCode:
    if broker.guard.denies_group(call, Operation.READ, beat.group_id):
        return ErrorCode.group_authorization_failed
    names = beat.subscribed_topic_names or ()
    if any(broker.guard.denies_topic(call, Operation.DESCRIBE, name) for name in names):
        return ErrorCode.topic_authorization_failed
    return ErrorCode.none


def by_topic(partitions: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    """Partitions as the wire has them: gathered by topic."""
    gathered: dict[UUID, list[int]] = defaultdict(list)
    for each in sorted(partitions):
        gathered[each.topic_id].append(each.partition)
    return [{"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in gathered.items()]


def _beat(call: Call) -> ConsumerHeartbeat:
    request = call.read(ConsumerGroupHeartbeatRequest)
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_topic_names=request.subscribed_topic_names,
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        client_id=call.client_id or "",
        client_host=call.client_host,
        can_get_member_id=call.version < _FIRST_OWN_MEMBER_ID,
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
