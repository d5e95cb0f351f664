"""The configuration of a broker, with Kafka's names and defaults.

The keys are declared in `model/broker/`, one file per area. Those that only give topics their
defaults (`log.retention.ms` for `retention.ms`) are not declared twice: they come from
`TOPIC_CONFIG`.
"""

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.broker.cluster import CLUSTER_KEYS
from headrace.model.broker.fetch import FETCH_KEYS
from headrace.model.broker.group import GROUP_KEYS
from headrace.model.broker.log import COARSE_KEYS, COARSE_UNITS, LOG_KEYS
from headrace.model.broker.network import NETWORK_KEYS
from headrace.model.broker.node import NO_BROKER_ID, NODE_KEYS
from headrace.model.broker.schema import SCHEMA_KEYS
from headrace.model.broker.security import SECURITY_KEYS
from headrace.model.broker.topic import TOPIC_KEYS
from headrace.model.broker.transaction import TRANSACTION_KEYS
from headrace.model.broker.without_effect import keys_without_effect
from headrace.model.config import ConfigKey, ConfigTable, ConfigValue
from headrace.model.topic_config import TOPIC_CONFIG

_OWN = [
    *NODE_KEYS,
    *NETWORK_KEYS,
    *TOPIC_KEYS,
    *CLUSTER_KEYS,
    *FETCH_KEYS,
    *LOG_KEYS,
    *COARSE_KEYS,
    *GROUP_KEYS,
    *TRANSACTION_KEYS,
    *SECURITY_KEYS,
    *SCHEMA_KEYS,
]


def _topic_defaults() -> list[ConfigKey]:
    return [
        replace(key, name=key.broker_default, broker_default=None)
        for key in TOPIC_CONFIG
        if key.broker_default is not None
    ]


_WITH_EFFECT = [*_OWN, *_topic_defaults()]
BROKER_CONFIG = ConfigTable.of(
    "the broker", [*_WITH_EFFECT, *keys_without_effect(key.name for key in _WITH_EFFECT)]
)

# (Kafka's older name, the key it stands for where that is not written itself).
_OLDER_NAMES = (("broker.id", "node.id"), ("log.dir", "log.dirs"))


def parse_broker_config(texts: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the value of every key of a broker that was configured with these texts.

    >>> parse_broker_config({"log.retention.hours": "2"})["log.retention.ms"]
    7200000
    """
    written = BROKER_CONFIG.parse(texts)
    values = BROKER_CONFIG.defaults() | written
    for older, name in _OLDER_NAMES:
        if name not in written and written.get(older) not in (None, NO_BROKER_ID, ()):
            values[name] = written[older]
    for coarse, fine, unit_ms in COARSE_UNITS:
        amount = written.get(coarse)
        if isinstance(amount, int) and fine not in written:
            written[fine] = values[fine] = amount * unit_ms if amount >= 0 else amount
    return values


def ignored_keys(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that have no effect, with the reason.

    >>> ignored_keys({"delegation.token.max.lifetime.ms": "8", "num.partitions": "3"})
    {'delegation.token.max.lifetime.ms': 'delegation tokens are not served'}
    """
    keys = [BROKER_CONFIG.keys[name] for name in texts if name in BROKER_CONFIG]
    return {key.name: key.without_effect for key in keys if key.without_effect is not None}


def topic_defaults(broker: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Return the configuration of a topic without its own keys on a broker configured so."""
    return {key.name: broker.get(key.broker_default or "", key.default) for key in TOPIC_CONFIG}
