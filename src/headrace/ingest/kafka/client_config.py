"""Translates Flume's and Java's settings of a Kafka client to ours and librdkafka's."""

import re
from collections.abc import Mapping
from typing import Final

from headrace.client.settings import CLIENT_CONFIG, ClientSettings
from headrace.ingest.settings import Settings
from headrace.model.error import ConfigError

_JAAS: Final = re.compile(r'(username|password)\s*=\s*"([^"]*)"')
# Keys that have a meaning in Java only.
_JAVA_ONLY: Final = ("serializer", "deserializer", "interceptor.classes", "partition.assignment")


def _connection_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that say how to connect, with the names of `headrace.client`."""
    config = {key: value for key, value in texts.items() if key in CLIENT_CONFIG}
    jaas = texts.get("sasl.jaas.config")
    if jaas is not None:
        for key, value in _JAAS.findall(jaas):
            config.setdefault(f"sasl.{key}", value)
    for store in ("ssl.truststore.location", "ssl.keystore.location"):
        if store not in texts:
            continue
        if not texts[store].lower().endswith(".pem"):
            raise ConfigError(
                f"{store} {texts[store]} is a Java key store: give a PEM file instead"
            )
        key = "ssl.ca.location" if "trust" in store else "ssl.certificate.location"
        config.setdefault(key, texts[store])
        if "key" in store.split(".")[1]:
            config.setdefault("ssl.key.location", texts[store])
    return config


def client_settings(settings: Settings, role: str) -> ClientSettings:
    """Return the settings of a connection to Kafka.

    Args:
        role: "producer" or "consumer": which `kafka.<role>.*` keys to read.

    Raises:
        SettingError: a value cannot be used.
    """
    texts = _connection_texts(settings.below(f"kafka.{role}"))
    servers = settings.optional("kafka.bootstrap.servers")
    if servers is not None:
        texts["bootstrap.servers"] = servers
    try:
        return ClientSettings.of(texts)
    except ConfigError as error:
        raise settings.wrong("kafka.bootstrap.servers", str(error)) from None


def consumer_config(settings: Settings) -> dict[str, str | bool]:
    """Return the configuration of confluent-kafka's consumer. Only the component commits
    offsets."""
    texts = settings.below("kafka.consumer")
    config: dict[str, str | bool] = {
        key: value
        for key, value in texts.items()
        if not any(word in key for word in _JAVA_ONLY)
        and not key.startswith(("sasl.jaas", "ssl.truststore", "ssl.keystore"))
        and key not in ("enable.auto.commit", "auto.commit.interval.ms", "max.poll.records")
    }
    config.update(_connection_texts(texts))
    for key in set(config) & {"request.timeout.ms", "default.api.timeout.ms", "fetch.max.wait.ms"}:
        value = config.pop(key)
        if key == "fetch.max.wait.ms":
            config["fetch.wait.max.ms"] = value
    servers = settings.optional("kafka.bootstrap.servers")
    if servers is not None:
        config["bootstrap.servers"] = servers
    config["group.id"] = texts.get("group.id") or settings.text("kafka.consumer.group.id")
    config["enable.auto.commit"] = False
    config["enable.auto.offset.store"] = False
    return config
