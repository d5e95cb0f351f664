"""Finds the topics whose configuration names a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from headrace.client.admin.admin import Admin, ConfigEntry
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.landing.error import LandingError
from headrace.model.config_code import ConfigResourceType
from headrace.model.error import ConfigError
from headrace.model.table.table_config import TABLE_CONFIG_KEYS, TableConfig
from headrace.model.topic_config import TOPIC_CONFIG
from headrace.wire.error_code import ErrorCode

_KEYS: Final = tuple(key.name for key in TABLE_CONFIG_KEYS)
_AT_ONCE: Final = 500
# Deleted since, or not for this user: there is nothing to land.
_NOT_OURS: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.topic_authorization_failed,
        ErrorCode.invalid_topic_exception,
    }
)


@dataclass(frozen=True, slots=True)
class ConfiguredTopic:
    """A topic that lands in a table. Two are equal if they land in the same way.

    Attributes:
        topic_id: None where brokers have no ids of topics.
        partitions: their numbers.
    """

    name: str
    topic_id: UUID | None
    table: TableConfig
    partitions: tuple[int, ...] = field(compare=False)


@dataclass(slots=True)
class ConfiguredTopics:
    """What the cluster's topics say.

    Attributes:
        topics: those that land, by name.
        problems: why others do not, by name: a later version may have configured them.
        unread: topics whose configuration could not be read now.
    """

    topics: dict[str, ConfiguredTopic] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)


def configured_topics(pool: ConnectionPool) -> ConfiguredTopics:
    """Return the topics whose configuration names a table.

    Raises:
        ClientError: the cluster cannot be asked.
        LandingError: its brokers do not have these keys.
    """
    topics = {
        name: each
        for name, each in pool.metadata().topics.items()
        if each.error is None and not each.internal
    }
    found = ConfiguredTopics()
    for names in _slices(sorted(topics)):
        described = Admin(pool).describe_configs(ConfigResourceType.TOPIC, names, _KEYS)
        for name, entries in described.items():
            if isinstance(entries, BrokerError):
                if entries.code not in _NOT_OURS:
                    found.unread.add(name)
                continue
            try:
                table = TableConfig.of(TOPIC_CONFIG.parse(_texts(name, entries)))
            except ConfigError as error:
                found.problems[name] = str(error)
                continue
            if table is not None:
                topic = topics[name]
                partitions = tuple(sorted(topic.partitions))
                found.topics[name] = ConfiguredTopic(name, topic.topic_id, table, partitions)
    return found


def _texts(topic: str, entries: Sequence[ConfigEntry]) -> Mapping[str, str]:
    if not entries:
        raise LandingError(
            f"the brokers know no headrace.table.name of topic {topic}: they are not Headrace's, "
            "or older; land a topic with headrace land TOPIC --table"
        )
    return {each.name: each.value for each in entries if each.value is not None}


def _slices(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(names), _AT_ONCE):
        yield names[at : at + _AT_ONCE]
