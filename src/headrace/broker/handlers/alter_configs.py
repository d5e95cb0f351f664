"""AlterConfigs (33), versions 0 to 2: what is not named goes back to its default."""

from typing import Any

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config_resource import ConfigTarget, change_configs
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import Rejection
from headrace.wire.api import ApiKey

API = ApiKey.ALTER_CONFIGS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AlterConfigsRequest)
    validate_only = request.validate_only

    def change(
        controller: Controller, target: ConfigTarget, resource: AlterConfigsResource
    ) -> Rejection | None:
        configs: dict[str, str | None] = {each.name: each.value for each in resource.configs}
        if target.topic is None:
            return controller.replace_broker_configs(
                target.broker_id, configs, validate_only=validate_only
            )
        return controller.replace_topic_configs(target.topic, configs, validate_only=validate_only)

    return await change_configs(broker, call, request.resources, change)
