"""IncrementalAlterConfigs (44), versions 0 and 1: what is not named stays (KIP-339)."""

from typing import Any

from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config_resource import ConfigTarget, change_configs
from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.model.config_code import ConfigOperation
from headrace.wire.api import ApiKey

API = ApiKey.INCREMENTAL_ALTER_CONFIGS

_OPERATIONS = {operation.value: operation for operation in ConfigOperation}


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(IncrementalAlterConfigsRequest)
    validate_only = request.validate_only

    def change(
        controller: Controller, target: ConfigTarget, resource: AlterConfigsResource
    ) -> Rejection | None:
        alterations = _alterations(resource)
        if isinstance(alterations, Rejection):
            return alterations
        if target.topic is None:
            return controller.alter_broker_configs(
                target.broker_id, alterations, validate_only=validate_only
            )
        return controller.alter_topic_configs(
            target.topic, alterations, validate_only=validate_only
        )

    return await change_configs(broker, call, request.resources, change)


def _alterations(resource: AlterConfigsResource) -> list[ConfigAlteration] | Rejection:
    found = []
    for each in resource.configs:
        operation = _OPERATIONS.get(each.config_operation)
        if operation is None:
            return Rejection(
                ClusterError.INVALID_REQUEST,
                f"{each.name}: there is no operation {each.config_operation}; 0 sets, 1 deletes, "
                "2 appends, 3 subtracts",
            )
        found.append(ConfigAlteration(each.name, operation, each.value))
    return found
