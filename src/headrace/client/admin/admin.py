"""Changes to topics, their configuration and their first offsets.

Every call takes many items and returns one outcome per item. An item that fails has its error as
the outcome; the call does not raise for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from headrace.client.error import BrokerError, ClientError, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, call_leaders, walk
from headrace.client.network.metadata import TopicMetadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import Retry
from headrace.model.config_code import ConfigOperation, ConfigResourceType, ConfigSource
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

TO_THE_END = -1
"""`delete_records` up to the high watermark."""

BROKER_CHOOSES = -1
"""Partitions or replicas as the broker's num.partitions and default.replication.factor say."""

_VISIBLE_SECONDS = 10.0
_FIRST_DELETES_BY_ID = 6  # Kafka 2.8
_NOT_VISIBLE = (ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Without numbers, the broker's defaults apply."""

    name: str
    partitions: int = BROKER_CHOOSES
    replication_factor: int = BROKER_CHOOSES
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change to one key of a configuration."""

    operation: ConfigOperation
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key of a configuration as a broker reports it. The value of a sensitive key is None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether the value is Kafka's default, set nowhere."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class Admin:
    """Creates, changes and deletes topics of one cluster, and reads and changes configurations.

    Example:
        with ConnectionPool(ClientSettings.of({})) as pool:
            Admin(pool).create_topics([NewTopic("clicks", 6)])
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Create topics. Those without an error can be written to when this returns."""
        body = {
            "topics": [
                {
                    "name": each.name,
                    "num_partitions": each.partitions,
                    "replication_factor": each.replication_factor,
                    "configs": [{"name": k, "value": v} for k, v in each.configs.items()],
                }
                for each in topics
            ],
            "timeout": self._timeout_ms,
            "validate_only": validate_only,
        }
        answer = self._controller_call(ApiKey.CREATE_TOPICS, body, "topics")
        outcomes = _outcomes(answer.topics, [each.name for each in topics])
        if not validate_only:
            self._wait_for({each.name: each.partitions for each in topics}, outcomes)
        return outcomes

    def _wait_for(
        self, totals: Mapping[str, int], outcomes: Mapping[str, BrokerError | None]
    ) -> None:
        """Wait until created or grown topics are visible with all partitions, each with a leader.

        Apache Kafka responds before all brokers know a new topic, and callers write to it next.
        Gives up after `_VISIBLE_SECONDS`: the topics exist, whatever delays their leaders.
        """
        retry = Retry(self._pool.settings, _VISIBLE_SECONDS)
        names = [name for name, error in outcomes.items() if error is None]
        while names:
            try:
                topics = self._pool.metadata(names).topics
            except ClientError:
                return
            names = [name for name in names if _is_not_visible(topics.get(name), totals[name])]
            if names and not retry.pause():
                return

    def delete_topics(self, names: Sequence[str]) -> dict[str, BrokerError | None]:
        """Delete topics with all their records."""
        body = {
            "topics": [{"name": name} for name in names],
            "topic_names": names,
            "timeout": self._timeout_ms,
        }
        answer = self._controller_call(ApiKey.DELETE_TOPICS, body, "responses")
        return _outcomes(answer.responses, names)

    def delete_topics_by_id(self, ids: Sequence[UUID]) -> dict[UUID, BrokerError | None]:
        """Delete just these topics, and none that has the name of one of them by now."""
        body = {
            "topics": [{"name": None, "topic_id": each} for each in ids],
            "timeout": self._timeout_ms,
        }
        answer = self._controller_call(
            ApiKey.DELETE_TOPICS, body, "responses", lowest=_FIRST_DELETES_BY_ID
        )
        found = {each.topic_id: error_of(each.error_code) for each in answer.responses}
        return {each: found.get(each) for each in ids}

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, BrokerError | None]:
        """Grow each topic to a total number of partitions. New ones can be written to then."""
        body = {
            "topics": [{"name": name, "count": total} for name, total in totals.items()],
            "timeout": self._timeout_ms,
        }
        answer = self._controller_call(ApiKey.CREATE_PARTITIONS, body, "results")
        outcomes = _outcomes(answer.results, list(totals))
        self._wait_for(totals, outcomes)
        return outcomes

    def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | ClientError]:
        """Delete the records below an offset; return the new log start of each partition."""

        def call(
            connection: BrokerConnection, led: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, int | BrokerError]:
            topics = [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": index,
                            "offset": led[TopicPartition(topic, index)],
                        }
                        for index in indexes
                    ],
                }
                for topic, indexes in by_topic(led).items()
            ]
            body = {"topics": topics, "timeout": self._timeout_ms}
            answer = connection.call(ApiKey.DELETE_RECORDS, body)
            return {
                partition: error_of(each.error_code) or int(each.low_watermark)
                for partition, each in walk(answer.topics)
            }

        return call_leaders(self._pool, offsets, call)

    def describe_configs(
        self, kind: ConfigResourceType, names: Sequence[str], keys: Sequence[str] | None = None
    ) -> dict[str, list[ConfigEntry] | BrokerError]:
        """Return keys of topics or brokers: some, or all. Each broker reports its own."""
        if kind is ConfigResourceType.BROKER:
            configs: dict[str, list[ConfigEntry] | BrokerError] = {}
            self._pool.metadata(())
            for name in names:
                configs |= _describe(self._pool.node(int(name)), kind, [name], keys)
            return configs
        return self._pool.on_any(lambda connection: _describe(connection, kind, names, keys))

    def alter_configs(
        self,
        kind: ConfigResourceType,
        changes: Mapping[str, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> dict[str, BrokerError | None]:
        """Change the configuration of topics or brokers, by name; keys that are not named stay.

        Args:
            validate_only: change nothing, and return what a change would.
        """
        body = {
            "resources": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [
                        {"name": c.name, "config_operation": c.operation, "value": c.value}
                        for c in each
                    ],
                }
                for name, each in changes.items()
            ],
            "validate_only": validate_only,
        }
        answer = self._controller_call(ApiKey.INCREMENTAL_ALTER_CONFIGS, body, "responses")
        return _outcomes(answer.responses, list(changes), "resource_name")

    @property
    def _timeout_ms(self) -> int:
        return self._pool.settings.request_timeout_ms

    def _controller_call(
        self, api: ApiKey, body: Mapping[str, Any], items: str, *, lowest: int = 0
    ) -> Any:
        def codes(answer: Any) -> Iterable[ErrorCode]:
            return [each.error_code for each in getattr(answer, items)]

        # The broker may use up the timeout of the request and still respond.
        wait_ms = self._timeout_ms
        return self._pool.on_controller(
            lambda connection: connection.call(api, body, lowest=lowest, wait_ms=wait_ms), codes
        )


def _describe(
    connection: BrokerConnection,
    kind: ConfigResourceType,
    names: Sequence[str],
    keys: Sequence[str] | None,
) -> dict[str, list[ConfigEntry] | BrokerError]:
    body = {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            for name in names
        ]
    }
    answer = connection.call(ApiKey.DESCRIBE_CONFIGS, body)
    configs: dict[str, list[ConfigEntry] | BrokerError] = {}
    for each in answer.results:
        error = error_of(each.error_code, each.error_message)
        configs[each.resource_name] = error or [_entry(config) for config in each.configs]
    return configs


def _entry(config: Any) -> ConfigEntry:
    try:
        source = ConfigSource(config.config_source)
    except ValueError:
        source = ConfigSource.UNKNOWN
    return ConfigEntry(config.name, config.value, source, config.read_only, config.is_sensitive)


def _is_not_visible(topic: TopicMetadata | None, partitions: int) -> bool:
    """Return whether waiting may still help. A topic that we may not see counts as visible."""
    if topic is None:
        return True
    if topic.error is not None:
        return topic.error.code in _NOT_VISIBLE
    leaders = [each.leader for each in topic.partitions.values()]
    return len(leaders) < partitions or min(leaders, default=-1) < 0


def _outcomes(
    answers: Iterable[Any], names: Sequence[str], name: str = "name"
) -> dict[str, BrokerError | None]:
    """Return the outcome per name, in the order of the request."""
    found = {
        getattr(each, name): error_of(each.error_code, getattr(each, "error_message", None))
        for each in answers
    }
    return {
        each: found.get(
            each, BrokerError(ErrorCode.unknown_server_error, "the broker said nothing")
        )
        for each in names
    }
