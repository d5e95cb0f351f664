"""The resources of configuration requests, topics and brokers, and how they are changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import Rejection
from headrace.model.broker_config import ignored_keys
from headrace.model.config_code import ConfigResourceType
from headrace.model.ids import BrokerId
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigRefusal:
    """Why a resource is neither described nor changed."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class ConfigTarget:
    """A topic, or else a broker, where None stands for all brokers."""

    topic: str | None = None
    broker_id: BrokerId | None = None


def find_target(
    broker: Broker, call: Call, kind: int, name: str, operation: Operation
) -> ConfigTarget | ConfigRefusal:
    """Return the resource, if the client may do the operation with it."""
    if kind == ConfigResourceType.TOPIC:
        if not broker.guard.may(call, operation, ResourceType.TOPIC, name):
            return ConfigRefusal(
                ErrorCode.topic_authorization_failed, f"not allowed for the topic {name!r}"
            )
        return ConfigTarget(topic=name)
    if not broker.guard.may_on_cluster(call, operation):
        return ConfigRefusal(
            ErrorCode.cluster_authorization_failed, "not allowed for the cluster's configuration"
        )
    if kind != ConfigResourceType.BROKER:
        return ConfigRefusal(
            ErrorCode.invalid_request,
            f"resources of type {kind} have no configuration here: topics (2) and brokers (4) have",
        )
    if not name:
        return ConfigTarget()
    if name != str(broker.node_id):
        return ConfigRefusal(
            ErrorCode.invalid_request,
            f"this is broker {broker.node_id}, not {name!r}: an empty name means all brokers",
        )
    return ConfigTarget(broker_id=broker.node_id)


Change = Callable[[Controller, ConfigTarget, Any], Rejection | None]
"""Makes the change that a request asks for on one resource."""


async def change_configs(
    broker: Broker, call: Call, resources: Sequence[Any], change: Change
) -> dict[str, Any]:
    """Change every resource on its own, and return the response of AlterConfigs and
    IncrementalAlterConfigs."""
    names = [(resource.resource_type, resource.resource_name) for resource in resources]
    answers = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        if names.count((kind, name)) > 1:
            refusal: ConfigRefusal | None = ConfigRefusal(
                ErrorCode.invalid_request, f"{name!r} stands twice in this request"
            )
        else:
            refusal = await _change(broker, call, resource, change)
        answers.append(
            {
                "error_code": ErrorCode.none if refusal is None else refusal.code,
                "error_message": None if refusal is None else refusal.message,
                "resource_type": kind,
                "resource_name": name,
            }
        )
    return {"responses": answers}


async def _change(
    broker: Broker, call: Call, resource: Any, change: Change
) -> ConfigRefusal | None:
    target = find_target(
        broker, call, resource.resource_type, resource.resource_name, Operation.ALTER_CONFIGS
    )
    if isinstance(target, ConfigRefusal):
        return target

    rejection = await broker.controller.administer(
        lambda controller: change(controller, target, resource)
    )
    if rejection is None:
        if target.topic is None:
            _warn_of_ignored(resource)
        return None
    return ConfigRefusal(cluster_code(rejection.error), rejection.message)


def _warn_of_ignored(resource: Any) -> None:
    """Say in the log which of a broker's keys were taken and have no effect."""
    set_keys = {each.name: each.value for each in resource.configs if each.value is not None}
    for key, reason in ignored_keys(set_keys).items():
        log.warning("config_key_ignored", key=key, reason=reason)
