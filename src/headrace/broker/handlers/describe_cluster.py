"""DescribeCluster (60), versions 0 to 2: the brokers and the cluster's id (KIP-700)."""

from typing import Any

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

from headrace.broker.auth.resource import CLUSTER_NAME, UNKNOWN_OPERATIONS, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_CLUSTER

_BROKERS = 1
_CONTROLLERS = 2


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeClusterRequest)
    if request.endpoint_type != _BROKERS:
        code = (
            ErrorCode.mismatched_endpoint_type
            if request.endpoint_type == _CONTROLLERS
            else ErrorCode.unsupported_endpoint_type
        )
        return {
            "error_code": code,
            "error_message": "this is the address of a broker, not of a controller",
            "endpoint_type": _BROKERS,
        }
    operations = UNKNOWN_OPERATIONS
    if request.include_cluster_authorized_operations:
        operations = broker.guard.operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
    return {
        "endpoint_type": _BROKERS,
        "cluster_id": broker.cluster_id,
        "controller_id": broker.membership.controller_id,
        "brokers": [
            {
                "broker_id": node["node_id"],
                "host": node["host"],
                "port": node["port"],
                "rack": node["rack"],
            }
            for node in broker.cluster_view.describe_nodes(call)
        ],
        "cluster_authorized_operations": operations,
    }
