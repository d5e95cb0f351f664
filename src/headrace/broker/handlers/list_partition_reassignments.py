"""ListPartitionReassignments (46), version 0: what is being moved (KIP-455)."""

from typing import Any

from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.replica.topic_table import HostedTopic
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.LIST_PARTITION_REASSIGNMENTS


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ListPartitionReassignmentsRequest)
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": "not allowed to describe the cluster",
        }
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {str(topic.name): {*topic.partition_indexes} for topic in request.topics}
    return {
        "topics": [
            {"name": topic.name, "partitions": moving}
            for topic in broker.topics
            if (wanted is None or topic.name in wanted)
            and (moving := _moving(topic, None if wanted is None else wanted[topic.name]))
        ]
    }


def _moving(topic: HostedTopic, wanted: set[int] | None) -> list[dict[str, Any]]:
    return [
        {
            "partition_index": index,
            "replicas": list(partition.replicas),
            "adding_replicas": list(partition.adding),
            "removing_replicas": list(partition.removing),
        }
        for index, partition in enumerate(topic.record.partitions)
        if partition.moving and (wanted is None or index in wanted)
    ]
