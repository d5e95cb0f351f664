"""AlterConfigs and IncrementalAlterConfigs (KIP-339) for topics, brokers, and other resources."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.cluster.broker import BrokerConfig
from headrace.cluster.entity_size import entity_problem, topic_problem
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.resource_config import ResourceConfig, ResourceKind
from headrace.cluster.state import Change, ClusterState, Put, Remove
from headrace.cluster.topic_command import config_problem
from headrace.model.broker_config import BROKER_CONFIG
from headrace.model.config import ConfigTable, ConfigType, ConfigValue
from headrace.model.config_code import ConfigOperation
from headrace.model.error import ConfigError
from headrace.model.ids import BrokerId
from headrace.model.topic_config import MIRROR_KEYS, TOPIC_CONFIG

_MIRROR_LINK = f"{MIRROR_KEYS}link"


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """One key of an incremental request. `value` does not matter for DELETE."""

    key: str
    operation: ConfigOperation
    value: str | None = None


def replace_topic_configs(
    state: ClusterState, name: str, configs: Mapping[str, str | None]
) -> Change | Rejection:
    """Replace the configuration (AlterConfigs): other keys go back to their defaults. A mirror
    topic stays one."""
    set_keys = [ConfigAlteration(key, ConfigOperation.SET, configs[key]) for key in configs]
    topic = state.topics.get(name)
    present = {} if topic is None else topic.configs
    kept = {key: text for key, text in present.items() if key.startswith(MIRROR_KEYS)}
    return _alter_topic(state, name, kept, set_keys)


def alter_topic_configs(
    state: ClusterState, name: str, alterations: Sequence[ConfigAlteration]
) -> Change | Rejection:
    """Change some keys (IncrementalAlterConfigs); the others stay."""
    topic = state.topics.get(name)
    return _alter_topic(state, name, topic.configs if topic else {}, alterations)


def _alter_topic(
    state: ClusterState,
    name: str,
    base: Mapping[str, str],
    alterations: Sequence[ConfigAlteration],
) -> Change | Rejection:
    topic = state.topics.get(name)
    if topic is None:
        return Rejection(
            ClusterError.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no topic {name!r} in this cluster",
            topic=name,
        )
    configs = _altered(TOPIC_CONFIG, base, alterations)
    if isinstance(configs, Rejection):
        return configs
    if configs.get(_MIRROR_LINK) and not topic.configs.get(_MIRROR_LINK):
        # It may have records of its own, and transactions that are open: a mirror takes no marker
        # of this cluster's coordinators, so what they have committed could never be read.
        return Rejection(
            ClusterError.INVALID_CONFIG,
            f"{_MIRROR_LINK} makes a topic a mirror when it is created, and {name!r} exists: "
            "delete it, or take another name for the mirror",
        )
    new = replace(topic, configs=configs)
    return topic_problem(new, topic) or config_problem(configs) or Put(new)


def replace_broker_configs(
    state: ClusterState, broker_id: BrokerId | None, configs: Mapping[str, str | None]
) -> Change | Rejection:
    """Replace the configuration of one broker, or with None of all of them (AlterConfigs)."""
    set_keys = [ConfigAlteration(key, ConfigOperation.SET, configs[key]) for key in configs]
    return _alter_broker(state, broker_id, {}, set_keys)


def alter_broker_configs(
    state: ClusterState, broker_id: BrokerId | None, alterations: Sequence[ConfigAlteration]
) -> Change | Rejection:
    """Change some keys of one broker, or with None of all (IncrementalAlterConfigs)."""
    known = state.broker_configs.get(broker_id)
    return _alter_broker(state, broker_id, known.configs if known else {}, alterations)


def _alter_broker(
    state: ClusterState,
    broker_id: BrokerId | None,
    base: Mapping[str, str],
    alterations: Sequence[ConfigAlteration],
) -> Change | Rejection:
    if broker_id is not None and broker_id not in state.brokers:
        return Rejection(ClusterError.INVALID_REQUEST, f"broker {broker_id} is not running")
    for alteration in alterations:
        problem = _broker_problem(alteration)
        if problem is not None:
            return problem
    configs = _altered(BROKER_CONFIG, base, alterations)
    if isinstance(configs, Rejection):
        return configs
    change = _put_or_remove(BrokerConfig(broker_id=broker_id, configs=configs))
    if isinstance(change, Rejection):
        return change
    try:
        BROKER_CONFIG.parse(configs)
    except ConfigError as error:
        return Rejection(ClusterError.INVALID_CONFIG, str(error))
    return change


CheckValues = Callable[[Mapping[str, ConfigValue]], None]
"""Raises ConfigError for values that cannot stand together, or not on this broker."""


def alter_resource_configs(
    state: ClusterState,
    kind: ResourceKind,
    name: str,
    alterations: Sequence[ConfigAlteration],
    *,
    check: CheckValues,
    replacing: bool = False,
) -> Change | Rejection:
    """Change some keys of a group or of a subscription; with `replacing` the others go."""
    known = state.resource_configs.get((kind, name))
    base = known.configs if known is not None and not replacing else {}
    configs = _altered(kind.table, base, alterations)
    if isinstance(configs, Rejection):
        return configs
    change = _put_or_remove(ResourceConfig(kind=kind, name=name, configs=configs))
    if isinstance(change, Rejection):
        return change
    try:
        check(kind.table.parse(configs))
    except ConfigError as error:
        return Rejection(ClusterError.INVALID_CONFIG, str(error))
    return change


def _put_or_remove(config: BrokerConfig | ResourceConfig) -> Change | Rejection:
    if not config.configs:
        return Remove(config)
    return entity_problem(config, ClusterError.INVALID_CONFIG) or Put(config)


def _broker_problem(alteration: ConfigAlteration) -> Rejection | None:
    key = BROKER_CONFIG.keys.get(alteration.key)
    if key is None or alteration.operation is ConfigOperation.DELETE:
        return None
    if not key.dynamic:
        return Rejection(
            ClusterError.INVALID_REQUEST,
            f"{key.name} cannot change while the broker runs: set it where the broker starts",
        )
    if key.sensitive and key.without_effect is not None:
        return Rejection(
            ClusterError.INVALID_CONFIG,
            f"{key.name} is a secret that this broker has no use for, and it is not kept: "
            f"{key.without_effect}",
        )
    return None


def _altered(
    table: ConfigTable, base: Mapping[str, str], alterations: Sequence[ConfigAlteration]
) -> dict[str, str] | Rejection:
    configs = dict(base)
    seen: set[str] = set()
    for alteration in alterations:
        if alteration.key in seen:
            return Rejection(
                ClusterError.INVALID_REQUEST, f"{alteration.key} is listed twice in this request"
            )
        seen.add(alteration.key)
        problem = _alter(table, configs, alteration)
        if problem is not None:
            return problem
    return configs


def _alter(
    table: ConfigTable, configs: dict[str, str], alteration: ConfigAlteration
) -> Rejection | None:
    name, operation, value = alteration.key, alteration.operation, alteration.value
    if operation is ConfigOperation.DELETE:
        # Also of a key that no one knows: Kafka's tools delete whatever they might have set.
        configs.pop(name, None)
        return None
    try:
        key = table[name]
    except ConfigError as error:
        return Rejection(ClusterError.INVALID_CONFIG, str(error))
    if value is None:
        return Rejection(
            ClusterError.INVALID_REQUEST, f"{name} has no value: write one, or delete the key"
        )
    if operation is ConfigOperation.SET:
        configs[name] = value
        return None
    if key.type is not ConfigType.LIST:
        return Rejection(
            ClusterError.INVALID_CONFIG,
            f"{name} is not a list: nothing can be added to it or taken from it, set it instead",
        )
    items = _items(configs.get(name, key.render(key.default) or ""))
    changed = _items(value)
    if operation is ConfigOperation.APPEND:
        known = set(items)
        items += [item for item in changed if item not in known]
    else:
        gone = set(changed)
        items = [item for item in items if item not in gone]
    configs[name] = ",".join(items)
    return None


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
