"""AlterPartitionReassignments (45), versions 0 and 1: move replicas (KIP-455, KIP-860).

A move begins at once; it ends when the new replicas are in sync, and the old ones are dropped then.
"""

from typing import Any

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.cluster.partition_command import Outcome
from headrace.cluster.rejection import Rejection
from headrace.model.ids import BrokerId, TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ALTER_PARTITION_REASSIGNMENTS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AlterPartitionReassignmentsRequest)
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": "not allowed to alter the cluster",
        }
    wanted = {
        TopicPartition(topic.name, one.partition_index): None
        if one.replicas is None
        else [BrokerId(each) for each in one.replicas]
        for topic in request.topics
        for one in topic.partitions
    }
    factor_may_change = request.allow_replication_factor_change
    plan = await broker.controller.administer(
        lambda controller: controller.reassign(wanted, factor_may_change=factor_may_change)
    )
    return {
        "allow_replication_factor_change": factor_may_change,
        "responses": [
            {
                "name": topic.name,
                "partitions": [
                    _answer(
                        one.partition_index,
                        plan.outcomes[TopicPartition(topic.name, one.partition_index)],
                    )
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def _answer(index: int, outcome: Outcome) -> dict[str, Any]:
    code, message = ErrorCode.none, None
    if isinstance(outcome, Rejection):
        code, message = cluster_code(outcome.error), outcome.message
    return {"partition_index": index, "error_code": code, "error_message": message}
