"""Topics and partitions."""

from typing import Any

from headrace.client.admin.admin import Admin
from headrace.client.error import ClientError, error_of
from headrace.client.network.metadata import PartitionMetadata, TopicMetadata
from headrace.client.read.offset_lookup import extents
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import NO_CONTENT, Answer, Call
from headrace.gateway.rest.v3.replica import find_partition
from headrace.gateway.rest.v3.resource import (
    check_cluster,
    check_topic_keys,
    collection,
    find_topic,
    list_field,
    number_field,
    raise_outcome,
    related,
    resource,
    text_field,
)
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey

_BROKER_CHOOSES = -1


def list_topics(call: Call) -> Answer:
    check_cluster(call)
    topics = sorted(call.pool.metadata().topics.items())
    data = [
        _topic(call, each)
        for name, each in topics
        if each.error is None and call.can_describe(name)
    ]
    return Answer(collection(call, "KafkaTopicList", ("topics",), data))


def create_topic(call: Call) -> Answer:
    check_cluster(call)
    fields = call.request.document()
    name = text_field(fields, "topic_name")
    call.request.caller.check(Right.ADMIN, [name])
    is_check = fields.get("validate_only") is True
    assignments = [_assignment(each) for each in list_field(fields, "replicas_assignments")]
    replicas = number_field(fields, "replication_factor", _BROKER_CHOOSES)
    if replicas >= 2**15:
        raise RestError(400, "replication_factor is too large.", 40002)
    configs: list[dict[str, Any]] = [
        {"name": text_field(each, "name"), "value": _value(each)}
        for each in list_field(fields, "configs")
    ]
    check_topic_keys(call, [each["name"] for each in configs])
    topic = {
        "name": name,
        "num_partitions": number_field(fields, "partitions_count", _BROKER_CHOOSES),
        "replication_factor": replicas,
        "assignments": assignments,
        "configs": configs,
    }
    timeout_ms = call.pool.settings.request_timeout_ms
    body = {"topics": [topic], "timeout": timeout_ms, "validate_only": is_check}
    answer = call.pool.on_controller(
        lambda connection: connection.call(ApiKey.CREATE_TOPICS, body, wait_ms=timeout_ms),
        lambda answer: [each.error_code for each in answer.topics],
    )
    made = answer.topics[0]
    raise_outcome(error_of(made.error_code, made.error_message))
    document = _topic_fields(
        call, name, False, max(made.replication_factor, 0), max(made.num_partitions, 0)
    )
    return Answer(document, status=200 if is_check else 201)


def get_topic(call: Call) -> Answer:
    check_cluster(call)
    return Answer(_topic(call, find_topic(call, call.request.path["topic_name"])))


def grow_topic(call: Call) -> Answer:
    """Raise the number of partitions."""
    check_cluster(call)
    name = find_topic(call, call.request.path["topic_name"]).name
    fields = call.request.document()
    if fields.get("partitions_count") is None:
        raise RestError(400, "partitions_count is missing.")
    count = number_field(fields, "partitions_count", 0, least=1)
    raise_outcome(Admin(call.pool).create_partitions({name: count})[name])
    return Answer(_topic(call, find_topic(call, name)))


def delete_topic(call: Call) -> Answer:
    check_cluster(call)
    name = find_topic(call, call.request.path["topic_name"]).name
    raise_outcome(Admin(call.pool).delete_topics([name])[name])
    return NO_CONTENT


def list_partitions(call: Call) -> Answer:
    check_cluster(call)
    topic = find_topic(call, call.request.path["topic_name"])
    data = [_partition(call, topic.name, each) for each in topic.partitions.values()]
    return Answer(collection(call, "KafkaPartitionList", _partitions(topic.name), data))


def get_partition(call: Call) -> Answer:
    check_cluster(call)
    return Answer(_partition(call, *find_partition(call)))


def get_partition_offsets(call: Call) -> Answer:
    """Return where a partition's log begins and ends."""
    check_cluster(call)
    topic, partition = find_partition(call)
    where = TopicPartition(topic, partition.index)
    extent = extents(call.pool, [where])[where]
    if isinstance(extent, ClientError):
        raise extent
    return Answer(
        resource(
            call,
            "KafkaPartitionWithOffsets",
            (*_partitions(topic), partition.index, "offset"),
            f"topic={topic}/partition={partition.index}/offset",
            topic_name=topic,
            partition_id=partition.index,
            earliest_offset=extent.start,
            latest_offset=extent.end,
        )
    )


def _assignment(fields: dict[str, Any]) -> dict[str, Any]:
    brokers = fields.get("broker_ids")
    if not isinstance(brokers, list) or not all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**31
        for each in brokers
    ):
        raise RestError(400, "broker_ids has to be a list of numbers.")
    return {
        "partition_index": number_field(fields, "partition_id", 0, least=0),
        "broker_ids": brokers,
    }


def _value(fields: dict[str, Any]) -> str | None:
    value = fields.get("value")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return None if value is None else text_field(fields, "value")


def _partitions(topic: str) -> tuple[str, str, str]:
    return ("topics", topic, "partitions")


def _topic(call: Call, topic: TopicMetadata) -> dict[str, Any]:
    return _topic_fields(
        call, topic.name, topic.internal, topic.replication_factor, len(topic.partitions)
    )


def _topic_fields(
    call: Call, name: str, internal: bool, replicas: int, partitions: int
) -> dict[str, Any]:
    return resource(
        call,
        "KafkaTopic",
        ("topics", name),
        f"topic={name}",
        topic_name=name,
        is_internal=internal,
        replication_factor=replicas,
        partitions_count=partitions,
        partitions=related(call, *_partitions(name)),
        configs=related(call, "topics", name, "configs"),
        partition_reassignments=related(call, *_partitions(name), "-", "reassignment"),
    )


def _partition(call: Call, topic: str, partition: PartitionMetadata) -> dict[str, Any]:
    place = (*_partitions(topic), partition.index)
    links = {
        "replicas": related(call, *place, "replicas"),
        "reassignment": related(call, *place, "reassignment"),
    }
    if partition.leader >= 0:
        links = {"leader": related(call, *place, "replicas", partition.leader), **links}
    return resource(
        call,
        "KafkaPartition",
        place,
        f"topic={topic}/partition={partition.index}",
        topic_name=topic,
        partition_id=partition.index,
        **links,
    )
