"""Replicas of partitions, and moves of them."""

from typing import Any

from headrace.client.admin.replica_admin import Move, ReplicaAdmin
from headrace.client.network.metadata import PartitionMetadata
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import Answer, Call
from headrace.gateway.rest.v3.resource import (
    MISSING_TOPIC,
    check_cluster,
    collection,
    find_topic,
    related,
    resource,
)
from headrace.model.ids import TopicPartition


def find_partition(call: Call) -> tuple[str, PartitionMetadata]:
    """Return the topic and the partition that a path names.

    Raises:
        RestError: there is none.
    """
    topic = call.request.path["topic_name"]
    found = find_topic(call, topic).partitions.get(call.request.number("partition_id"))
    if found is None:
        raise RestError(404, MISSING_TOPIC, 40403)
    return topic, found


def list_replicas(call: Call) -> Answer:
    check_cluster(call)
    topic, partition = find_partition(call)
    data = [replica(call, topic, partition, each) for each in partition.replicas]
    path = ("topics", topic, "partitions", partition.index, "replicas")
    return Answer(collection(call, "KafkaReplicaList", path, data))


def get_replica(call: Call) -> Answer:
    check_cluster(call)
    topic, partition = find_partition(call)
    broker = call.request.number("broker_id")
    if broker not in partition.replicas:
        raise RestError(404, f"Broker {broker} has no replica of {topic}-{partition.index}.")
    return Answer(replica(call, topic, partition, broker))


def list_all_reassignments(call: Call) -> Answer:
    check_cluster(call)
    return _reassignments(call, None)


def list_reassignments(call: Call) -> Answer:
    check_cluster(call)
    return _reassignments(call, find_topic(call, call.request.path["topic_name"]).name)


def get_reassignment(call: Call) -> Answer:
    check_cluster(call)
    topic, partition = find_partition(call)
    where = TopicPartition(topic, partition.index)
    move = ReplicaAdmin(call.pool).moves().get(where)
    if move is None:
        raise RestError(404, f"{where} is not being moved.")
    return Answer(_reassignment(call, where, move))


def replica(call: Call, topic: str, partition: PartitionMetadata, broker: int) -> dict[str, Any]:
    """Return one replica."""
    index = partition.index
    return resource(
        call,
        "KafkaReplica",
        ("topics", topic, "partitions", index, "replicas", broker),
        f"topic={topic}/partition={index}/replica={broker}",
        topic_name=topic,
        partition_id=index,
        broker_id=broker,
        is_leader=partition.leader == broker,
        is_in_sync=broker in partition.in_sync,
        broker=related(call, "brokers", broker),
    )


def _reassignments(call: Call, topic: str | None) -> Answer:
    moves = sorted(ReplicaAdmin(call.pool).moves().items())
    data = [
        _reassignment(call, where, move)
        for where, move in moves
        if (call.can_describe(where.topic) if topic is None else where.topic == topic)
    ]
    path = ("topics", "-" if topic is None else topic, "partitions", "-", "reassignment")
    return Answer(collection(call, "KafkaReassignmentList", path, data))


def _reassignment(call: Call, where: TopicPartition, move: Move) -> dict[str, Any]:
    place = ("topics", where.topic, "partitions", where.partition)
    return resource(
        call,
        "KafkaReassignment",
        (*place, "reassignment"),
        f"topic={where.topic}/partition={where.partition}/reassignment",
        topic_name=where.topic,
        partition_id=where.partition,
        adding_replicas=list(move.adding),
        removing_replicas=list(move.removing),
        replicas=related(call, *place, "replicas"),
    )
