"""ListConfigResources (74), versions 0 and 1: what can be configured (KIP-1142).

Version 0 asks for client metrics only, of which there are none here.
"""

from typing import Any

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.model.config_code import ConfigResourceType
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.LIST_CONFIG_RESOURCES

_CLIENT_METRICS_ONLY = 0


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ListConfigResourcesRequest)
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE_CONFIGS):
        return {"error_code": ErrorCode.cluster_authorization_failed}
    wanted: set[int] = set(request.resource_types) or set(ConfigResourceType)
    if call.version == _CLIENT_METRICS_ONLY:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    if not wanted <= set(ConfigResourceType):
        return {"error_code": ErrorCode.unsupported_version}
    found: list[tuple[ConfigResourceType, str]] = []
    if ConfigResourceType.TOPIC in wanted:
        found += [(ConfigResourceType.TOPIC, topic.name) for topic in broker.topics]
    if ConfigResourceType.BROKER in wanted:
        found.append((ConfigResourceType.BROKER, str(broker.node_id)))
    return {
        "config_resources": [{"resource_type": kind, "resource_name": name} for kind, name in found]
    }
