"""All routes of API v2, and the stream of a topic."""

from typing import Final

from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.exchange import AsyncHandler
from headrace.gateway.rest.route import Handler, Route
from headrace.gateway.rest.v2 import consumer, produce, stream, stream_socket, topic

_TOPIC: Final = "/topics/{topic_name}"
_PARTITION: Final = f"{_TOPIC}/partitions/{{partition_id}}"
_GROUP: Final = "/consumers/{group_name}"
_INSTANCE: Final = f"{_GROUP}/instances/{{instance}}"


def _get(
    path: str, summary: str, handle: Handler, returns: str, right: Right = Right.DESCRIBE
) -> Route:
    return Route(
        method="GET", path=path, right=right, summary=summary, handle=handle, returns=returns
    )


def _instance(
    method: str,
    path: str,
    summary: str,
    handle: AsyncHandler,
    takes: str | None = None,
    returns: str | None = None,
) -> Route:
    return Route(
        method=method,
        path=f"{_INSTANCE}{path}",
        right=Right.GROUP,
        summary=summary,
        handle_async=handle,
        takes=takes,
        returns=returns,
        status=204 if returns is None else 200,
    )


V2_ROUTES: Final = [
    _get("/", "Say that the proxy is there", topic.root, "Empty", Right.LOGIN),
    _get("/brokers", "List the ids of brokers", topic.list_brokers, "BrokerIds", Right.LOGIN),
    _get("/topics", "List the names of topics", topic.list_topics, "TopicNames", Right.LOGIN),
    _get(_TOPIC, "Get a topic", topic.get_topic, "TopicV2"),
    _get(f"{_TOPIC}/partitions", "List partitions", topic.list_partitions, "PartitionsV2"),
    _get(_PARTITION, "Get a partition", topic.get_partition, "PartitionV2"),
    _get(
        f"{_PARTITION}/offsets",
        "Get where a partition begins and ends",
        topic.get_offsets,
        "OffsetsV2",
    ),
    Route(
        method="POST",
        path=_TOPIC,
        right=Right.WRITE,
        summary="Produce records",
        handle_async=produce.produce,
        takes="ProduceRequestV2",
        returns="ProduceResponseV2",
    ),
    Route(
        method="POST",
        path=_PARTITION,
        right=Right.WRITE,
        summary="Produce records to a partition",
        handle_async=produce.produce_to_partition,
        takes="ProduceRequestV2",
        returns="ProduceResponseV2",
    ),
    Route(
        method="GET",
        path=f"{_TOPIC}/stream",
        right=Right.READ,
        summary="Follow a topic as server-sent events, or by a WebSocket",
        handle_async=stream.stream,
        handle_websocket=stream_socket.stream_socket,
        query=("from", "partition", "key", "contains", "position"),
        has_head=False,
    ),
    Route(
        method="POST",
        path=_GROUP,
        right=Right.GROUP,
        summary="Make a consumer instance",
        handle_async=consumer.create,
        takes="CreateConsumerRequest",
        returns="CreateConsumerResponse",
    ),
    _instance("DELETE", "", "Delete a consumer instance", consumer.delete),
    _instance(
        "POST", "/subscription", "Subscribe", consumer.subscribe, takes="SubscriptionRequest"
    ),
    _instance(
        "GET",
        "/subscription",
        "Get the subscription",
        consumer.get_subscription,
        returns="Subscription",
    ),
    _instance("DELETE", "/subscription", "Unsubscribe", consumer.unsubscribe),
    _instance(
        "POST", "/assignments", "Assign partitions", consumer.assign, takes="AssignedPartitions"
    ),
    _instance(
        "GET",
        "/assignments",
        "Get the assigned partitions",
        consumer.get_assignments,
        returns="AssignedPartitions",
    ),
    _instance("POST", "/positions", "Set positions", consumer.seek, takes="OffsetList"),
    _instance(
        "POST",
        "/positions/beginning",
        "Go to the beginning of partitions",
        consumer.seek_to_beginning,
        takes="AssignedPartitions",
    ),
    _instance(
        "POST",
        "/positions/end",
        "Go to the end of partitions",
        consumer.seek_to_end,
        takes="AssignedPartitions",
    ),
    Route(
        method="POST",
        path=f"{_INSTANCE}/offsets",
        right=Right.GROUP,
        summary="Commit offsets",
        handle_async=consumer.commit,
        takes="OffsetList",
    ),
    _instance("GET", "/offsets", "Get committed offsets", consumer.committed, returns="OffsetList"),
    Route(
        method="GET",
        path=f"{_INSTANCE}/records",
        right=Right.GROUP,
        summary="Read records",
        handle_async=consumer.read,
        returns="ConsumedRecords",
        query=("timeout", "max_bytes"),
        has_head=False,
    ),
]
