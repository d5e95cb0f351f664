"""AlterPartitionReassignments (45), versions 0 and 1: move replicas (KIP-455).

One broker has nowhere to move them to: what asks for the replicas that are is done already, what
asks for others is refused, and nothing is ever under way that could be cancelled.
"""

from collections.abc import Sequence
from typing import Any

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.call import Call
from headrace.broker.node import Broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ALTER_PARTITION_REASSIGNMENTS


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AlterPartitionReassignmentsRequest)
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": "not allowed to alter the cluster",
        }
    return {
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "responses": [
            {
                "name": topic.name,
                "partitions": [
                    _reassign(broker, topic.name, one.partition_index, one.replicas)
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def _reassign(
    broker: Broker, topic: str, index: int, replicas: Sequence[int] | None
) -> dict[str, Any]:
    known = broker.topics.by_name(topic)
    code, message = ErrorCode.none, None
    if known is None or not 0 <= index < len(known.partitions):
        code, message = ErrorCode.unknown_topic_or_partition, "there is no such partition"
    elif replicas is None:
        code, message = ErrorCode.no_reassignment_in_progress, "nothing is being moved"
    elif list(replicas) != [broker.node_id]:
        code = ErrorCode.invalid_replica_assignment
        message = f"the replicas must be [{broker.node_id}]: no other broker is running"
    return {"partition_index": index, "error_code": code, "error_message": message}
