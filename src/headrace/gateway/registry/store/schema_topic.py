"""The topic `_schemas`: one partition, compacted, as other registries create it."""

import time
from typing import Final

import structlog

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.config_code import ConfigResourceType
from headrace.model.error import ConfigError
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

DEFAULT_TOPIC: Final = "_schemas"
_REPLICAS: Final = 3
_LOOK_SECONDS: Final = 0.5
_NOT_THERE_YET: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available}
)


def wait_for_schema_topic(settings: ClientSettings, topic: str) -> None:
    """Wait until the topic is there. A mirror creates it, and leaves one of this cluster alone.

    Raises:
        ClientError: no broker can be reached, or it will not show the topic.
    """
    waits = False
    with ConnectionPool(settings) as pool:
        while True:
            known = pool.metadata([topic]).topics.get(topic)
            error = None if known is None else known.error
            if known is not None and error is None:
                return
            if error is not None and error.code not in _NOT_THERE_YET:
                raise error
            if not waits:
                waits = True
                log.info("registry_waits_for_topic", topic=topic)
            time.sleep(_LOOK_SECONDS)


def create_schema_topic(settings: ClientSettings, topic: str) -> None:
    """Create the topic unless it exists; refuse one in which schemas would be lost.

    Raises:
        ConfigError: it has several partitions, or is not compacted.
        ClientError: the cluster refuses.
    """
    with ConnectionPool(settings) as pool:
        metadata = pool.metadata([topic])
        known = metadata.topics.get(topic)
        if known is None or known.error is not None:
            new = NewTopic(
                topic,
                1,
                min(_REPLICAS, len(metadata.brokers)),
                configs={"cleanup.policy": "compact"},
            )
            error = Admin(pool).create_topics([new])[topic]
            if error is None:
                log.info("registry_topic_created", topic=topic)
            elif error.code is not ErrorCode.topic_already_exists:
                raise error
            return
        if len(known.partitions) != 1:
            raise ConfigError(
                f"topic {topic} has {len(known.partitions)} partitions: a registry needs a topic "
                "with one, so that there is one order of all changes"
            )
        _check_compacted(pool, topic)


def _check_compacted(pool: ConnectionPool, topic: str) -> None:
    entries = Admin(pool).describe_configs(ConfigResourceType.TOPIC, [topic])[topic]
    if isinstance(entries, BrokerError):
        log.warning("registry_topic_config_unknown", topic=topic, error=str(entries))
        return
    policy = next((each.value for each in entries if each.name == "cleanup.policy"), "compact")
    if policy != "compact":
        raise ConfigError(
            f"topic {topic} has cleanup.policy={policy}: schemas would be deleted when they grow "
            f"old; write headrace topic alter-config {topic} --set cleanup.policy=compact"
        )
