"""Kafka's codes in requests about configurations; the client and the broker share them."""

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """What a configuration belongs to. MIRROR_LINK is ours; Kafka has the others."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
    MIRROR_LINK = 64


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8
    DYNAMIC_MIRROR_LINK_CONFIG = 64


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with a value (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
