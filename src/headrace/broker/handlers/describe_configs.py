"""DescribeConfigs (32), versions 1 to 4: every key, its value, and where the value comes from.

A value is looked for in this order (Kafka's synonyms): the topic's own, this broker's dynamic one,
the dynamic one of all brokers, what the broker was started with, the default. A group has its own
values over the broker's, a subscription to clients' metrics its own over defaults.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config_resource import (
    RESOURCE_KINDS,
    ConfigRefusal,
    ConfigTarget,
    find_target,
)
from headrace.broker.logger_config import logger_levels
from headrace.broker.loop_turn import LoopTurn
from headrace.cluster.state import ClusterState
from headrace.model.broker_config import BROKER_CONFIG
from headrace.model.config import ConfigKey
from headrace.model.config_code import ConfigResourceType, ConfigSource
from headrace.model.ids import BrokerId
from headrace.model.topic_config import TOPIC_CONFIG
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.message import pack_response_item

API = ApiKey.DESCRIBE_CONFIGS

_OWN_SOURCES = {
    ConfigResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    ConfigResourceType.MIRROR_LINK: ConfigSource.DYNAMIC_MIRROR_LINK_CONFIG,
}
_UNKNOWN_TYPE = 0

Layer = tuple[ConfigSource, Mapping[str, str]]
Found = tuple[str, str | None, ConfigSource]
"""The key a value was written under, the value, and where that was."""


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeConfigsRequest)
    asked, turn = [], LoopTurn()
    for (kind, name), keys in _wanted_keys(request).items():
        target = find_target(broker, call, kind, name, Operation.DESCRIBE_CONFIGS)
        asked.append(_Asked(kind, name, keys, target))
        await turn.pause_if_over()

    def describe(state: ClusterState) -> list[bytes | dict[str, Any]]:
        return [_pack(call, _describe(broker, state, request, each)) for each in asked]

    return {"results": await broker.controller.read(describe)}


class _Asked(NamedTuple):
    """A resource of a request; without keys all are wanted."""

    kind: int
    name: str
    keys: frozenset[str]
    target: ConfigTarget | ConfigRefusal


def _wanted_keys(request: DescribeConfigsRequest) -> dict[tuple[int, str], frozenset[str]]:
    """Return the keys that are wanted of each resource.

    A resource that is listed twice is answered once: the answer is a thousand times as long.
    """
    wanted: dict[tuple[int, str], set[str]] = {}
    for each in request.resources:
        keys = set(each.configuration_keys or ())
        known = wanted.setdefault((each.resource_type, each.resource_name), keys)
        if not keys:
            known.clear()
        elif known:
            known |= keys
    return {resource: frozenset(keys) for resource, keys in wanted.items()}


def _pack(call: Call, result: dict[str, Any]) -> bytes | dict[str, Any]:
    """Return a resource as bytes, which are a small part of what its mappings are in memory; in the
    thread that reads, because the keys of thousands of topics would hold the event loop up. Errors
    stay mappings: metrics and the log of refusals look for them."""
    if "error_code" in result:
        return result
    return pack_response_item(API, call.version, "results", result)


def _describe(
    broker: Broker, state: ClusterState, request: DescribeConfigsRequest, asked: _Asked
) -> dict[str, Any]:
    named = {"resource_type": asked.kind, "resource_name": asked.name}
    target, wanted = asked.target, asked.keys
    if isinstance(target, ConfigTarget):
        if target.kind is ConfigResourceType.BROKER_LOGGER:
            return named | {"configs": _loggers(wanted)}
        found = _find(broker, state, target)
        if found is not None:
            return named | {
                "configs": [
                    _answer(key, values, request)
                    for key, values in found
                    if not wanted or key.name in wanted
                ]
            }
        target = ConfigRefusal(
            ErrorCode.unknown_topic_or_partition,
            f"there is no topic {target.name!r} in this cluster",
        )
    return named | {"error_code": target.code, "error_message": target.message}


def _find(
    broker: Broker, state: ClusterState, target: ConfigTarget
) -> list[tuple[ConfigKey, list[Found]]] | None:
    """Return every key with all its values; None for a topic that does not exist."""
    if target.kind in RESOURCE_KINDS:
        return _find_resource(broker, state, target)
    layers = _broker_layers(broker, state)
    if target.kind is ConfigResourceType.TOPIC:
        record = state.topics.get(target.name)
        if record is None:
            return None
        layers = [(ConfigSource.DYNAMIC_TOPIC_CONFIG, record.configs), *layers]
        return [(key, _look_up(key, layers)) for key in TOPIC_CONFIG]
    if target.broker_id is not None:
        return [(key, _look_up(key, layers)) for key in BROKER_CONFIG]
    # All brokers: what was set for all of them, and nothing else.
    return [
        (BROKER_CONFIG[name], [(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)])
        for name, text in _dynamic(state, None).items()
        if name in BROKER_CONFIG
    ]


def _find_resource(
    broker: Broker, state: ClusterState, target: ConfigTarget
) -> list[tuple[ConfigKey, list[Found]]]:
    kind = RESOURCE_KINDS[target.kind]
    known = state.resource_configs.get((kind, target.name))
    own = {} if known is None else known.configs
    found: list[tuple[ConfigKey, list[Found]]] = []
    for key in kind.table:
        default = key.default
        if key.broker_default is not None:
            default = broker.settings[key.broker_default]
        values: list[Found] = [(key.name, key.render(default), ConfigSource.DEFAULT_CONFIG)]
        if key.name in own:
            values.insert(0, (key.name, own[key.name], _OWN_SOURCES[target.kind]))
        found.append((key, values))
    return found


def _loggers(wanted: frozenset[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "value": level,
            "config_source": ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            "config_type": _UNKNOWN_TYPE,
        }
        for name, level in logger_levels().items()
        if not wanted or name in wanted
    ]


def _broker_layers(broker: Broker, state: ClusterState) -> list[Layer]:
    return [
        (ConfigSource.DYNAMIC_BROKER_CONFIG, _dynamic(state, broker.node_id)),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, _dynamic(state, None)),
        (ConfigSource.STATIC_BROKER_CONFIG, broker.settings.written),
    ]


def _dynamic(state: ClusterState, broker_id: BrokerId | None) -> Mapping[str, str]:
    known = state.broker_configs.get(broker_id)
    return {} if known is None else known.configs


def _look_up(key: ConfigKey, layers: list[Layer]) -> list[Found]:
    """Return every value there is for a key, the one that counts first."""
    found: list[Found] = []
    for source, texts in layers:
        name = (
            key.name
            if source is ConfigSource.DYNAMIC_TOPIC_CONFIG
            else key.broker_default or key.name
        )
        # A topic's key without a broker's counterpart is looked for in the topic alone.
        if name in texts and (source is ConfigSource.DYNAMIC_TOPIC_CONFIG or name in BROKER_CONFIG):
            found.append((name, texts[name], source))
    found.append(
        (key.broker_default or key.name, key.render(key.default), ConfigSource.DEFAULT_CONFIG)
    )
    return found


def _answer(key: ConfigKey, values: list[Found], request: DescribeConfigsRequest) -> dict[str, Any]:
    _, text, source = values[0]
    return {
        "name": key.name,
        "value": None if key.sensitive else text,
        "read_only": not key.dynamic,
        "config_source": source,
        "is_sensitive": key.sensitive,
        "config_type": key.type.value,
        "documentation": key.documentation if request.include_documentation else None,
        "synonyms": [
            {"name": name, "value": None if key.sensitive else value, "source": where}
            for name, value, where in values
        ]
        if request.include_synonyms
        else [],
    }
