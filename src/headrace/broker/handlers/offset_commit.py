"""OffsetCommit (8), versions 2 to 10: store how far a group has read.

Version 10 names topics by id. A commit for a partition that does not exist is refused alone; the
others of the request are stored.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kio.schema.offset_commit.v10.request import OffsetCommitRequest, OffsetCommitRequestPartition

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call, milliseconds
from headrace.broker.error_mapping import group_code
from headrace.broker.replica.topic_table import HostedTopic
from headrace.groups.offset.message import CommitReply, CommitRequest, OffsetToCommit
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.OFFSET_COMMIT

_FIRST_MEMBER_EPOCH = 9  # KIP-848
_FIRST_TOPIC_ID = 10


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(OffsetCommitRequest)
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return _answer(call, lambda position, index: ErrorCode.group_authorization_failed)
    topics = [_topic(broker, call, named) for named in call.body.topics]
    denied = [
        broker.guard.denies_topic(
            call,
            Operation.READ,
            getattr(named, "name", None),
            getattr(named, "topic_id", None),
        )
        for named in call.body.topics
    ]
    commit = CommitRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id_or_member_epoch,
        instance_id=request.group_instance_id,
        offsets={
            TopicPartition(topic.name, each.partition_index): _offset(topic, each)
            for topic, named, closed in zip(topics, request.topics, denied, strict=True)
            if topic is not None and not closed
            for each in named.partitions
            if _has(topic, each.partition_index)
        },
        retention_ms=_retention_ms(call),
        knows_epochs=call.version >= _FIRST_MEMBER_EPOCH,
    )
    reply = await broker.groups.handle(commit)

    def code(position: int, index: int) -> ErrorCode:
        if denied[position]:
            return ErrorCode.topic_authorization_failed
        return _code(call, topics[position], index, reply)

    return _answer(call, code)


def _answer(call: Call, code: Callable[[int, int], ErrorCode]) -> dict[str, Any]:
    """Answer each partition with `code(position of its topic in the request, partition)`."""
    return {
        "topics": [
            {
                "name": getattr(named, "name", None),
                "topic_id": getattr(named, "topic_id", None),
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": code(position, each.partition_index),
                    }
                    for each in named.partitions
                ],
            }
            for position, named in enumerate(call.body.topics)
        ]
    }


def _topic(broker: Broker, call: Call, named: Any) -> HostedTopic | None:
    if call.version < _FIRST_TOPIC_ID:
        return broker.topics.by_name(named.name)
    return None if named.topic_id is None else broker.topics.by_id(named.topic_id)


def _has(topic: HostedTopic, index: int) -> bool:
    return 0 <= index < len(topic.partitions)


def _offset(topic: HostedTopic, partition: OffsetCommitRequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        topic_id=topic.topic_id,
    )


def _retention_ms(call: Call) -> int | None:
    """Return the retention of versions 2 to 4; a negative one leaves it to the broker."""
    retention: timedelta | None = getattr(call.body, "retention_time", None)
    if retention is None or retention < timedelta(0):
        return None
    return milliseconds(retention)


def _code(call: Call, topic: HostedTopic | None, index: int, reply: CommitReply) -> ErrorCode:
    if topic is None and call.version >= _FIRST_TOPIC_ID:
        return ErrorCode.unknown_topic_id
    if topic is None or not _has(topic, index):
        return ErrorCode.unknown_topic_or_partition
    if reply.error is not None:
        return group_code(reply.error)
    return group_code(reply.errors.get(TopicPartition(topic.name, index)))
