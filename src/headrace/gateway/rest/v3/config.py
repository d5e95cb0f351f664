"""Configurations of topics, of brokers, and of all brokers of the cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.error import error_of
from headrace.client.network.connection import BrokerConnection
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import NO_CONTENT, Answer, Call
from headrace.gateway.rest.v3.resource import (
    check_cluster,
    check_topic_keys,
    collection,
    find_topic,
    list_field,
    raise_outcome,
    resource,
    text_field,
)
from headrace.model.config_code import ConfigOperation, ConfigResourceType, ConfigSource
from headrace.wire.api import ApiKey

_ALL_BROKERS: Final = ""
_TOPICS_PER_REQUEST: Final = 200


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose configuration a request is about."""

    type: ConfigResourceType
    name: str
    kind: str
    path: tuple[str, ...]
    crn: str
    fields: dict[str, Any]


def _cluster(call: Call) -> _Owner:
    return _Owner(
        ConfigResourceType.BROKER,
        _ALL_BROKERS,
        "KafkaClusterConfig",
        ("broker-configs",),
        "broker-config",
        {"config_type": "BROKER"},
    )


def _broker(call: Call) -> _Owner:
    node_id = call.request.number("broker_id")
    if node_id not in call.pool.metadata(()).brokers:
        raise RestError(404, f"Broker {node_id} cannot be found.")
    return _broker_of(node_id)


def _broker_of(node_id: int) -> _Owner:
    return _Owner(
        ConfigResourceType.BROKER,
        str(node_id),
        "KafkaBrokerConfig",
        ("brokers", str(node_id), "configs"),
        f"broker={node_id}/config",
        {"broker_id": node_id},
    )


def _topic(call: Call) -> _Owner:
    return _topic_of(find_topic(call, call.request.path["topic_name"]).name)


def _topic_of(name: str) -> _Owner:
    return _Owner(
        ConfigResourceType.TOPIC,
        name,
        "KafkaTopicConfig",
        ("topics", name, "configs"),
        f"topic={name}/config",
        {"topic_name": name},
    )


class ConfigRoutes:
    """The five operations on one kind of configuration."""

    def __init__(self, owner: Callable[[Call], _Owner]) -> None:
        self._owner = owner

    def list(self, call: Call) -> Answer:
        check_cluster(call)
        owner = self._owner(call)
        data = [_config(call, owner, each) for each in _describe(call, [owner])[owner.name]]
        return Answer(collection(call, f"{owner.kind}List", owner.path, data))

    def get(self, call: Call) -> Answer:
        check_cluster(call)
        owner = self._owner(call)
        return Answer(_config(call, owner, _find(call, owner)))

    def set(self, call: Call) -> Answer:
        check_cluster(call)
        owner = self._owner(call)
        value = call.request.document().get("value")
        change = _change(call.request.path["name"], ConfigOperation.SET, value)
        _alter(call, owner, [change], is_check=False)
        return NO_CONTENT

    def reset(self, call: Call) -> Answer:
        check_cluster(call)
        owner = self._owner(call)
        change = _change(call.request.path["name"], ConfigOperation.DELETE, None)
        _alter(call, owner, [change], is_check=False)
        return NO_CONTENT

    def alter(self, call: Call) -> Answer:
        check_cluster(call)
        owner = self._owner(call)
        fields = call.request.document()
        changes = [
            _change(text_field(each, "name"), _operation(each), each.get("value"))
            for each in list_field(fields, "data")
        ]
        _alter(call, owner, changes, is_check=fields.get("validate_only") is True)
        return NO_CONTENT


CLUSTER: Final = ConfigRoutes(_cluster)
BROKER: Final = ConfigRoutes(_broker)
TOPIC: Final = ConfigRoutes(_topic)


def list_all_broker_configs(call: Call) -> Answer:
    check_cluster(call)
    owners = [_broker_of(each) for each in sorted(call.pool.metadata(()).brokers)]
    data = [
        _config(call, owner, each)
        for owner in owners
        for each in _describe(call, [owner])[owner.name]
    ]
    path = ("brokers", "-", "configs")
    return Answer(collection(call, "KafkaBrokerConfigList", path, data))


def list_all_topic_configs(call: Call) -> Answer:
    check_cluster(call)
    topics = call.pool.metadata().topics
    owners = [
        _topic_of(name)
        for name, each in sorted(topics.items())
        if each.error is None and call.can_describe(name)
    ]
    found: dict[str, list[Any]] = {}
    for first in range(0, len(owners), _TOPICS_PER_REQUEST):
        found |= _describe(call, owners[first : first + _TOPICS_PER_REQUEST])
    data = [_config(call, owner, each) for owner in owners for each in found.get(owner.name, ())]
    return Answer(collection(call, "KafkaTopicConfigList", ("topics", "-", "configs"), data))


def _describe(call: Call, owners: Sequence[_Owner]) -> dict[str, list[Any]]:
    body = {
        "resources": [
            {"resource_type": each.type, "resource_name": each.name, "configuration_keys": None}
            for each in owners
        ],
        "include_synonyms": True,
    }

    def ask(connection: BrokerConnection) -> Any:
        return connection.call(ApiKey.DESCRIBE_CONFIGS, body)

    first = owners[0]
    if first.type is ConfigResourceType.BROKER and first.name != _ALL_BROKERS:
        call.pool.metadata(())
        answer = ask(call.pool.node(int(first.name)))
    else:
        answer = call.pool.on_any(ask)
    for each in answer.results:
        raise_outcome(error_of(each.error_code, each.error_message))
    return {each.resource_name: list(each.configs) for each in answer.results}


def _find(call: Call, owner: _Owner) -> Any:
    name = call.request.path["name"]
    for each in _describe(call, [owner])[owner.name]:
        if each.name == name:
            return each
    raise RestError(404, f"Config {name} cannot be found for {'/'.join(owner.path[:2])}.")


def _alter(call: Call, owner: _Owner, changes: Sequence[dict[str, Any]], *, is_check: bool) -> None:
    if owner.type is ConfigResourceType.TOPIC:
        check_topic_keys(call, [each["name"] for each in changes])
    body = {
        "resources": [
            {"resource_type": owner.type, "resource_name": owner.name, "configs": changes}
        ],
        "validate_only": is_check,
    }
    answer = call.pool.on_controller(
        lambda connection: connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, body),
        lambda answer: [each.error_code for each in answer.responses],
    )
    for each in answer.responses:
        raise_outcome(error_of(each.error_code, each.error_message))


def _operation(fields: dict[str, Any]) -> ConfigOperation:
    name = fields.get("operation") or "SET"
    if name not in ("SET", "DELETE"):
        raise RestError(400, "operation has to be SET or DELETE.")
    return ConfigOperation[name]


def _change(name: str, operation: ConfigOperation, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, str):
        raise RestError(400, f"The value of {name} has to be a text.")
    if operation is ConfigOperation.SET and value is None:
        operation = ConfigOperation.DELETE
    return {"name": name, "config_operation": operation, "value": value}


def _config(call: Call, owner: _Owner, entry: Any) -> dict[str, Any]:
    source = _source(entry.config_source)
    return resource(
        call,
        owner.kind,
        (*owner.path, entry.name),
        f"{owner.crn}={entry.name}",
        **owner.fields,
        name=entry.name,
        value=None if entry.is_sensitive else entry.value,
        is_default=source == ConfigSource.DEFAULT_CONFIG.name,
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        source=source,
        synonyms=[
            {
                "name": each.name,
                "value": None if entry.is_sensitive else each.value,
                "source": _source(each.source),
            }
            for each in entry.synonyms
        ],
    )


def _source(code: int) -> str:
    try:
        return ConfigSource(code).name
    except ValueError:
        return ConfigSource.UNKNOWN.name
