"""A broker's configuration, typed, as the rest of the broker reads it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from headrace.broker.config.internal_topic import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.broker.config.listener import (
    Listener,
    advertised,
    check_distinct,
    parse_protocols,
    split_address,
)
from headrace.cluster.topic_command import TopicToCreate
from headrace.groups.config import GroupConfig
from headrace.model.broker_config import BROKER_CONFIG, parse_broker_config, topic_defaults
from headrace.model.config import ConfigValue
from headrace.model.error import ConfigError
from headrace.model.ids import BrokerId
from headrace.model.topic_config import TOPIC_CONFIG, LogConfig
from headrace.transactions.config import TransactionConfig

log = structlog.get_logger(__name__)

_NO_ADMIN = "none"


class BrokerSettings:
    """`BROKER_CONFIG` with what the user wrote on top.

    Args:
        texts: keys and values as they were written, in a file or with `-X`.

    Raises:
        ConfigError: an unknown key, a bad value, or values that contradict each other.

    >>> BrokerSettings({"num.partitions": "6"}).num_partitions
    6
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.written = dict(texts)
        self._values: dict[str, ConfigValue] = parse_broker_config(texts)
        protocols = parse_protocols(self._list("listener.security.protocol.map"))
        self.listeners = tuple(Listener.parse(text, protocols) for text in self._list("listeners"))
        if not self.listeners:
            raise ConfigError("listeners is empty: write at least one, as PLAINTEXT://HOST:PORT")
        check_distinct(self.listeners)
        self.advertised_listeners = advertised(
            self.listeners, self._list("advertised.listeners"), protocols
        )
        self.inter_broker_listener = self._inter_broker_listener()
        self.log_dirs = tuple(Path(text) for text in self._list("log.dirs"))
        if not self.log_dirs:
            raise ConfigError("log.dirs is empty: write at least one directory")
        self.admin_address = self._admin_address()
        self._log_configs: dict[frozenset[tuple[str, str]], LogConfig] = {}
        self._subscribers: list[Callable[[], None]] = []

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def values(self) -> Mapping[str, ConfigValue]:
        return self._values

    def set_dynamic(self, texts: Mapping[str, str]) -> None:
        """Set what was changed while the broker runs, on top of what it was started with, and call
        every subscriber (KIP-226). What this version does not know is left out."""
        for key, problem in BROKER_CONFIG.problems(texts).items():
            log.error("config_key_skipped", key=key, reason=problem)
        self._values = self.with_dynamic(texts)
        self._log_configs = {}
        for subscriber in self._subscribers:
            subscriber()

    def with_dynamic(self, texts: Mapping[str, str]) -> dict[str, ConfigValue]:
        """Return the values that `set_dynamic` would bring into force. Any thread may ask."""
        problems = BROKER_CONFIG.problems(texts)
        known = {key: text for key, text in texts.items() if key not in problems}
        return parse_broker_config({**self.written, **known})

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Call `subscriber` after every change; it reads the values it needs again."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[], None]) -> None:
        self._subscribers.remove(subscriber)

    def _list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple)
        return value

    def _inter_broker_listener(self) -> Listener | None:
        """Return the listener that other brokers use; None only for a broker without others."""
        name, protocol = self["inter.broker.listener.name"], self["security.inter.broker.protocol"]
        if name is not None:
            if "security.inter.broker.protocol" in self.written:
                raise ConfigError(
                    "inter.broker.listener.name and security.inter.broker.protocol are both "
                    "written: write one of them"
                )
            found = next((each for each in self.listeners if each.name == name), None)
            if found is None:
                raise ConfigError(
                    f"inter.broker.listener.name is {name!r}, which is not among listeners"
                )
            return found
        found = next((each for each in self.listeners if each.protocol == protocol), None)
        if found is None and self["zookeeper.connect"]:
            raise ConfigError(
                f"no listener speaks {protocol}, as brokers do with each other: write with "
                "inter.broker.listener.name which one is theirs"
            )
        return found

    def _admin_address(self) -> tuple[str, int] | None:
        text = self["headrace.admin.listener"]
        return None if text == _NO_ADMIN else split_address(text)

    # -- what handlers read

    @property
    def node_id(self) -> BrokerId:
        return BrokerId(self["node.id"])

    @property
    def rack(self) -> str | None:
        rack: str | None = self["broker.rack"]
        return rack

    @property
    def num_partitions(self) -> int:
        return int(self["num.partitions"])

    @property
    def default_replication_factor(self) -> int:
        return int(self["default.replication.factor"])

    @property
    def fetch_max_bytes(self) -> int:
        return int(self["fetch.max.bytes"])

    @property
    def fetch_session_slots(self) -> int:
        return int(self["max.incremental.fetch.session.cache.slots"])

    # -- the configuration of other parts

    def groups(self, own: Mapping[str, Mapping[str, int]]) -> GroupConfig:
        """Return what all groups go by; `own` are the keys of single groups, by group."""
        return GroupConfig(
            group_min_session_timeout_ms=self["group.min.session.timeout.ms"],
            group_max_session_timeout_ms=self["group.max.session.timeout.ms"],
            group_initial_rebalance_delay_ms=self["group.initial.rebalance.delay.ms"],
            group_max_size=self["group.max.size"],
            group_consumer_session_timeout_ms=self["group.consumer.session.timeout.ms"],
            group_consumer_heartbeat_interval_ms=self["group.consumer.heartbeat.interval.ms"],
            group_consumer_max_size=self["group.consumer.max.size"],
            group_consumer_assignors=self["group.consumer.assignors"],
            group_consumer_migration_policy=self["group.consumer.migration.policy"],
            offset_metadata_max_bytes=self["offset.metadata.max.bytes"],
            offsets_commit_timeout_ms=self["offsets.commit.timeout.ms"],
            offsets_retention_ms=self["offsets.retention.minutes"] * 60_000,
            own=own,
        )

    def transactions(self) -> TransactionConfig:
        return TransactionConfig(
            transaction_max_timeout_ms=self["transaction.max.timeout.ms"],
            transactional_id_expiration_ms=self["transactional.id.expiration.ms"],
            transaction_remove_expired_transaction_cleanup_interval_ms=self[
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ],
        )

    @property
    def alone(self) -> bool:
        """Whether the broker has its own store, which no other broker shares."""
        return not self["zookeeper.connect"]

    def internal_topic(self, name: str) -> TopicToCreate:
        """Return how a coordinator's topic is created: compacted, and in a cluster with as many
        replicas as are configured, even if fewer brokers are running."""
        prefix = {CONSUMER_OFFSETS: "offsets.topic", TRANSACTION_STATE: "transaction.state.log"}
        key = prefix[name]
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self[f"{key}.segment.bytes"]),
        }
        if name == TRANSACTION_STATE:
            in_sync = 1 if self.alone else self["transaction.state.log.min.isr"]
            configs["min.insync.replicas"] = str(in_sync)
        return TopicToCreate(
            name=name,
            partitions=self[f"{key}.num.partitions"],
            replication_factor=1 if self.alone else self[f"{key}.replication.factor"],
            configs=configs,
        )

    def log_configs(
        self, topic_configs: Callable[[str], Mapping[str, str]]
    ) -> Callable[[str], LogConfig]:
        """Return a function from a topic to the configuration of its logs: the topic's own values
        over the broker's defaults. Topics with the same values share it: a change of the broker's
        asks for all topics at once."""

        def config_of(topic: str) -> LogConfig:
            texts = topic_configs(topic)
            # Taken before the values are read: what is made of old values goes with the old cache.
            cache, key = self._log_configs, frozenset(texts.items())
            config = cache.get(key)
            if config is None:
                config = cache[key] = self._log_config(topic, texts)
            return config

        return config_of

    def _log_config(self, topic: str, texts: Mapping[str, str]) -> LogConfig:
        problems = TOPIC_CONFIG.problems(texts)
        for key, problem in problems.items():
            log.error("config_key_skipped", topic=topic, key=key, reason=problem)
        own = TOPIC_CONFIG.parse({key: text for key, text in texts.items() if key not in problems})
        try:
            return LogConfig.of({**topic_defaults(self._values), **own})
        except ConfigError as error:
            # The topic's own keys were validated without the broker's defaults. A default that
            # contradicts them must not keep the log from being opened.
            log.error("broker_defaults_ignored", topic=topic, reason=str(error))
            return LogConfig.of(own)
