"""ListConfigResources (74), versions 0 and 1: what can be configured (KIP-1142).

Version 0 asks for subscriptions to clients' metrics only. Groups and subscriptions are listed that
have a key of their own.
"""

from typing import Any

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config_resource import RESOURCE_KINDS
from headrace.cluster.state import ClusterState
from headrace.model.config_code import ConfigResourceType
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.LIST_CONFIG_RESOURCES

_CLIENT_METRICS_ONLY = 0


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ListConfigResourcesRequest)
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE_CONFIGS):
        return {"error_code": ErrorCode.cluster_authorization_failed}
    wanted: set[int] = set(request.resource_types) or set(ConfigResourceType)
    if call.version == _CLIENT_METRICS_ONLY:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    if not wanted <= set(ConfigResourceType):
        return {"error_code": ErrorCode.unsupported_version}

    def names(state: ClusterState) -> list[tuple[ConfigResourceType, str]]:
        return [
            (kind, name)
            for kind in ConfigResourceType
            if kind in wanted
            for name in _names(kind, state)
        ]

    found = await broker.controller.read(names)
    return {
        "config_resources": [{"resource_type": kind, "resource_name": name} for kind, name in found]
    }


def _names(kind: ConfigResourceType, state: ClusterState) -> list[str]:
    if kind is ConfigResourceType.TOPIC:
        return sorted(state.topics)
    if kind in RESOURCE_KINDS:
        resource = RESOURCE_KINDS[kind]
        return sorted(name for known, name in list(state.resource_configs) if known is resource)
    return [str(broker_id) for broker_id in sorted(state.brokers)]
