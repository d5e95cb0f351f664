"""The resources of configuration requests, and how they are changed.

Topics and brokers have configurations, and so do groups, mirror links, subscriptions to clients'
metrics (KIP-714), and the loggers of this broker (KIP-412), whose levels last as long as its
process.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.broker.logger_config import alter_logger_levels
from headrace.broker.loop_turn import LoopTurn
from headrace.cluster.config_command import CheckValues, ConfigAlteration
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.resource_config import ResourceKind
from headrace.model.broker_config import ignored_keys
from headrace.model.client_metrics_config import check_client_metrics
from headrace.model.config import ConfigValue
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.error import ConfigError
from headrace.model.group_config import check_group_config
from headrace.model.ids import BrokerId
from headrace.model.mirror_link_config import check_mirror_link, check_password_given
from headrace.model.topic_config import MIRROR_KEYS
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger(__name__)

RESOURCE_KINDS: Mapping[ConfigResourceType, ResourceKind] = {
    ConfigResourceType.GROUP: ResourceKind.GROUP,
    ConfigResourceType.CLIENT_METRICS: ResourceKind.CLIENT_METRICS,
    ConfigResourceType.MIRROR_LINK: ResourceKind.MIRROR_LINK,
}
"""Resources whose configuration is all that the cluster's state has of them."""

_KINDS = frozenset(ConfigResourceType)


@dataclass(frozen=True, slots=True)
class ConfigRefusal:
    """Why a resource is neither described nor changed."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class ConfigTarget:
    """What is described or changed. A broker without a name stands for all brokers."""

    kind: ConfigResourceType
    name: str

    @property
    def broker_id(self) -> BrokerId | None:
        return BrokerId(int(self.name)) if self.name else None


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """The changes of one resource; with `replacing` what is not named goes back to its default."""

    alterations: Sequence[ConfigAlteration]
    replacing: bool
    validate_only: bool

    def values(self) -> dict[str, str | None]:
        return {each.key: each.value for each in self.alterations}


def find_target(
    broker: Broker, call: Call, kind: int, name: str, operation: Operation
) -> ConfigTarget | ConfigRefusal:
    """Return the resource, if the client may do the operation with it."""
    denied = _denied(broker, call, kind, name, operation)
    if denied is not None:
        return denied
    if kind not in _KINDS:
        return ConfigRefusal(
            ErrorCode.invalid_request,
            f"resources of type {kind} have no configuration: topics (2), brokers (4), loggers of "
            "brokers (8), client metrics (16), groups (32) and mirror links (64) have",
        )
    target = ConfigTarget(ConfigResourceType(kind), name)
    if target.kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        all_brokers = not name and target.kind is ConfigResourceType.BROKER
        if name != str(broker.node_id) and not all_brokers:
            return ConfigRefusal(
                ErrorCode.invalid_request,
                f"this is broker {broker.node_id}, not {name!r}: an empty name means all brokers",
            )
    elif not name:
        return ConfigRefusal(ErrorCode.invalid_request, "a resource without a name")
    return target


MIRROR_DENIED = f"keys that begin with {MIRROR_KEYS} need AlterConfigs on the cluster"


def denies_mirror(broker: Broker, call: Call, keys: Iterable[str]) -> bool:
    """Return whether some keys make a topic a mirror, or end that, and the client may not."""
    return any(each.startswith(MIRROR_KEYS) for each in keys) and not (
        broker.guard.may_on_cluster(call, Operation.ALTER_CONFIGS)
    )


def _denied(
    broker: Broker, call: Call, kind: int, name: str, operation: Operation
) -> ConfigRefusal | None:
    if kind == ConfigResourceType.TOPIC:
        if broker.guard.may(call, operation, ResourceType.TOPIC, name):
            return None
        return ConfigRefusal(
            ErrorCode.topic_authorization_failed, f"not allowed for the topic {name!r}"
        )
    if kind == ConfigResourceType.GROUP:
        if broker.guard.may(call, operation, ResourceType.GROUP, name):
            return None
        return ConfigRefusal(
            ErrorCode.group_authorization_failed, f"not allowed for the group {name!r}"
        )
    if broker.guard.may_on_cluster(call, operation):
        return None
    return ConfigRefusal(
        ErrorCode.cluster_authorization_failed, "not allowed for the cluster's configuration"
    )


ReadEdit = Callable[[Any], ConfigEdit | ConfigRefusal]
"""Returns the changes that a request asks for on one of its resources."""


async def change_configs(
    broker: Broker, call: Call, resources: Sequence[Any], read_edit: ReadEdit
) -> dict[str, Any]:
    """Change every resource on its own, and return the response of AlterConfigs and
    IncrementalAlterConfigs."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answers = []
    turn = LoopTurn()
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        if times[kind, name] > 1:
            refusal: ConfigRefusal | None = ConfigRefusal(
                ErrorCode.invalid_request, f"{name!r} is listed twice in this request"
            )
        else:
            refusal = await _change(broker, call, resource, read_edit)
        answers.append(
            {
                "error_code": ErrorCode.none if refusal is None else refusal.code,
                "error_message": None if refusal is None else refusal.message,
                "resource_type": kind,
                "resource_name": name,
            }
        )
        await turn.pause_if_over()
    return {"responses": answers}


async def _change(
    broker: Broker, call: Call, resource: Any, read_edit: ReadEdit
) -> ConfigRefusal | None:
    target = find_target(
        broker, call, resource.resource_type, resource.resource_name, Operation.ALTER_CONFIGS
    )
    if isinstance(target, ConfigRefusal):
        return target
    edit = read_edit(resource)
    if isinstance(edit, ConfigRefusal):
        return edit
    if target.kind is ConfigResourceType.TOPIC and denies_mirror(
        broker, call, [each.key for each in edit.alterations]
    ):
        return ConfigRefusal(ErrorCode.cluster_authorization_failed, MIRROR_DENIED)
    if target.kind is ConfigResourceType.BROKER_LOGGER:
        rejection = alter_logger_levels(
            edit.alterations, replacing=edit.replacing, validate_only=edit.validate_only
        )
    else:
        rejection = await broker.controller.administer(
            lambda controller: _alter(broker, controller, target, edit)
        )
    if rejection is not None:
        return ConfigRefusal(cluster_code(rejection.error), rejection.message)
    if target.kind is ConfigResourceType.BROKER:
        _warn_of_ignored(edit)
    return None


def _alter(
    broker: Broker, controller: Controller, target: ConfigTarget, edit: ConfigEdit
) -> Rejection | None:
    """Change a resource in the cluster's state, in the controller's thread."""
    validate_only = edit.validate_only
    if target.kind is ConfigResourceType.MIRROR_LINK:
        known = controller.state.resource_configs.get((ResourceKind.MIRROR_LINK, target.name))
        try:
            check_password_given({} if known is None else known.configs, edit.values().keys())
        except ConfigError as error:
            return Rejection(ClusterError.INVALID_CONFIG, str(error))
    if target.kind in RESOURCE_KINDS:
        return controller.alter_resource_configs(
            RESOURCE_KINDS[target.kind],
            target.name,
            edit.alterations,
            check=_check(broker, target.kind),
            replacing=edit.replacing,
            validate_only=validate_only,
        )
    if target.kind is ConfigResourceType.TOPIC:
        name = target.name
        if edit.replacing:
            return controller.replace_topic_configs(
                name, edit.values(), validate_only=validate_only
            )
        return controller.alter_topic_configs(name, edit.alterations, validate_only=validate_only)
    broker_id = target.broker_id
    if edit.replacing:
        return controller.replace_broker_configs(
            broker_id, edit.values(), validate_only=validate_only
        )
    return controller.alter_broker_configs(broker_id, edit.alterations, validate_only=validate_only)


def _check(broker: Broker, kind: ConfigResourceType) -> CheckValues:
    if kind is ConfigResourceType.CLIENT_METRICS:
        return check_client_metrics
    if kind is ConfigResourceType.MIRROR_LINK:
        return check_mirror_link

    def check(values: Mapping[str, ConfigValue]) -> None:
        check_group_config(values, broker.settings.values())

    return check


def _warn_of_ignored(edit: ConfigEdit) -> None:
    """Say in the log which of a broker's keys were taken and have no effect."""
    named = {
        each.key: each.value or ""
        for each in edit.alterations
        if each.operation is not ConfigOperation.DELETE
    }
    for key, reason in ignored_keys(named).items():
        log.warning("config_key_ignored", key=key, reason=reason)
