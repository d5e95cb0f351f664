"""ListPartitionReassignments (46), version 0: with one broker nothing is ever being moved."""

from typing import Any

from headrace.broker.auth.resource import Operation
from headrace.broker.call import Call
from headrace.broker.node import Broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.LIST_PARTITION_REASSIGNMENTS


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": "not allowed to describe the cluster",
        }
    return {"topics": []}
