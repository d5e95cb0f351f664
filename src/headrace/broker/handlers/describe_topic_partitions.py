"""DescribeTopicPartitions (75), version 0: topics in pages (KIP-966).

Topics go out in the order of their names. A cursor says where the next page begins, so a cluster of
any size is described without an answer of any size.
"""

from typing import Any

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest

from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.replica.topic_table import HostedTopic
from headrace.model.ids import topic_name_problem
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_TOPIC_PARTITIONS

_MAX_PARTITIONS = 2000  # Kafka's max.request.partition.size.limit


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeTopicPartitionsRequest)
    left = max(1, min(request.response_partition_limit, _MAX_PARTITIONS))
    names: set[str] = {topic.name for topic in request.topics}
    named = bool(names)
    if named:
        await broker.controller.served(names)
    else:
        names = {topic.name for topic in broker.topics}
    first_name, first_index = "", 0
    if request.cursor is not None:
        first_name, first_index = request.cursor.topic_name, max(0, request.cursor.partition_index)
    topics: list[dict[str, Any]] = []
    for name in sorted(name for name in names if name >= first_name):
        if not broker.guard.may(call, Operation.DESCRIBE, ResourceType.TOPIC, name):
            if named:
                topics.append({"error_code": ErrorCode.topic_authorization_failed, "name": name})
            continue
        start = first_index if name == first_name else 0
        if left == 0:
            return _page(topics, (name, start))
        topic = broker.topics.by_name(name)
        if topic is None:
            topics.append({"error_code": _missing(name), "name": name})
            continue
        end = min(len(topic.partitions), start + left)
        topics.append(_describe(broker, call, topic, start, end))
        left -= max(0, end - start)
        if end < len(topic.partitions):
            return _page(topics, (name, end))
    return _page(topics, None)


def _page(topics: list[dict[str, Any]], cursor: tuple[str, int] | None) -> dict[str, Any]:
    following = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    return {"topics": topics, "next_cursor": following}


def _missing(name: str) -> ErrorCode:
    if topic_name_problem(name) is not None:
        return ErrorCode.invalid_topic_exception
    return ErrorCode.unknown_topic_or_partition


def _describe(
    broker: Broker, call: Call, topic: HostedTopic, start: int, end: int
) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.internal,
        "partitions": [_partition(broker, topic, index) for index in range(start, end)],
        "topic_authorized_operations": broker.guard.operations(
            call, ResourceType.TOPIC, topic.name
        ),
    }


def _partition(broker: Broker, topic: HostedTopic, index: int) -> dict[str, Any]:
    return {
        **broker.cluster_view.describe_partition(topic, index),
        "eligible_leader_replicas": [],
        "last_known_elr": [],
    }
