"""AlterConfigs (33), versions 0 to 2: what is not named goes back to its default."""

from typing import Any

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config_resource import ConfigEdit, change_configs
from headrace.cluster.config_command import ConfigAlteration
from headrace.model.config_code import ConfigOperation
from headrace.wire.api import ApiKey

API = ApiKey.ALTER_CONFIGS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AlterConfigsRequest)

    def read_edit(resource: AlterConfigsResource) -> ConfigEdit:
        alterations = [
            ConfigAlteration(each.name, ConfigOperation.SET, each.value)
            for each in resource.configs
        ]
        return ConfigEdit(alterations, replacing=True, validate_only=request.validate_only)

    return await change_configs(broker, call, request.resources, read_edit)
