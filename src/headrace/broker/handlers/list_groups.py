"""ListGroups (16), versions 0 to 5: every group of this broker, by state (4) or type (5)."""

from typing import Any

from kio.schema.list_groups.v5.request import ListGroupsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.groups.error import Refusal
from headrace.wire.api import ApiKey

API = ApiKey.LIST_GROUPS


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ListGroupsRequest)
    try:
        registries = broker.groups.registries()
    except Refusal as refusal:
        return {"error_code": group_code(refusal.error)}
    sees_all = broker.guard.may_on_cluster(call, Operation.DESCRIBE)
    return {
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.type.value,
            }
            for registry in registries
            for group in registry.list_groups(request.states_filter, request.types_filter)
            if sees_all or not broker.guard.denies_group(call, Operation.DESCRIBE, group.group_id)
        ]
    }
