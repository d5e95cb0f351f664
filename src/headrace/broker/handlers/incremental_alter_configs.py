"""IncrementalAlterConfigs (44), versions 0 and 1: what is not named stays (KIP-339)."""

from typing import Any

from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config_resource import ConfigEdit, ConfigRefusal, change_configs
from headrace.cluster.config_command import ConfigAlteration
from headrace.model.config_code import ConfigOperation
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.INCREMENTAL_ALTER_CONFIGS

_OPERATIONS = {operation.value: operation for operation in ConfigOperation}


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(IncrementalAlterConfigsRequest)

    def read_edit(resource: AlterConfigsResource) -> ConfigEdit | ConfigRefusal:
        alterations = []
        for each in resource.configs:
            operation = _OPERATIONS.get(each.config_operation)
            if operation is None:
                return ConfigRefusal(
                    ErrorCode.invalid_request,
                    f"{each.name}: there is no operation {each.config_operation}; 0 sets, "
                    "1 deletes, 2 appends, 3 subtracts",
                )
            alterations.append(ConfigAlteration(each.name, operation, each.value))
        return ConfigEdit(alterations, replacing=False, validate_only=request.validate_only)

    return await change_configs(broker, call, request.resources, read_edit)
