"""OffsetDelete (47), version 0: delete offsets of topics that a group no longer reads (KIP-496)."""

from typing import Any

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest as OffsetDeleteBody

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.offset.message import OffsetDeleteReply, OffsetDeleteRequest
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.OFFSET_DELETE


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(OffsetDeleteBody)
    if broker.guard.denies_group(call, Operation.DELETE, request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    denied = {
        topic.name
        for topic in request.topics
        if broker.guard.denies_topic(call, Operation.READ, topic.name)
    }
    partitions = [
        TopicPartition(topic.name, each.partition_index)
        for topic in request.topics
        if topic.name not in denied and broker.topics.by_name(topic.name) is not None
        for each in topic.partitions
    ]
    reply = await broker.groups.handle(
        OffsetDeleteRequest(group_id=request.group_id, partitions=partitions)
    )
    if reply.error is not None:
        return {"error_code": group_code(reply.error)}
    known = frozenset(partitions)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": ErrorCode.topic_authorization_failed
                        if topic.name in denied
                        else _code(TopicPartition(topic.name, each.partition_index), known, reply),
                    }
                    for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _code(
    where: TopicPartition, known: frozenset[TopicPartition], reply: OffsetDeleteReply
) -> ErrorCode:
    if where not in known:
        return ErrorCode.unknown_topic_or_partition
    return group_code(reply.errors.get(where))
