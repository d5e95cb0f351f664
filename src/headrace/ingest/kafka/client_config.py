"""Translates Flume's and Java's settings of a Kafka client to ours and librdkafka's.

What a component does not say itself comes from this user's client.properties (`user_login`).
"""

import re
from typing import Final

from headrace.client.address import parse_addresses
from headrace.client.settings import CLIENT_CONFIG, DEFAULT_BROKERS, ClientSettings
from headrace.client.user_login import login_for
from headrace.ingest.settings import Settings, is_security_key
from headrace.model.error import ConfigError

_JAAS: Final = re.compile(r'(username|password)\s*=\s*"([^"]*)"')
_TRANSLATED: Final = ("sasl.jaas.config", "ssl.truststore.location", "ssl.keystore.location")
_INSTEAD: Final = {
    "ssl.keystore.password": " and set ssl.key.password",
    "ssl.truststore.password": ", a PEM file has none",
}
# Keys that have a meaning in Java only.
_JAVA_ONLY: Final = ("serializer", "deserializer", "interceptor.classes", "partition.assignment")


def _connection_texts(settings: Settings, role: str) -> dict[str, str]:
    """Return the keys that say how to connect, with the names of `headrace.client`.

    Raises:
        SettingError: a key asks for security that the client does not have.
        ConfigError: this user's file cannot be used.
    """
    texts = settings.below(f"kafka.{role}")
    for key, value in texts.items():
        if is_security_key(key) and not _is_honoured(key, value):
            name = f"kafka.{role}.{key}"
            raise settings.wrong(name, f"{name} is not supported: remove it{_INSTEAD.get(key, '')}")
    config = {key: value for key, value in texts.items() if key in CLIENT_CONFIG}
    jaas = texts.get("sasl.jaas.config")
    if jaas is not None:
        for key, value in _JAAS.findall(jaas):
            config.setdefault(f"sasl.{key}", value)
    for store in ("ssl.truststore.location", "ssl.keystore.location"):
        if store not in texts:
            continue
        if not texts[store].lower().endswith(".pem"):
            raise settings.wrong(
                f"kafka.{role}.{store}",
                f"{store} {texts[store]} is a Java key store: give a PEM file instead",
            )
        key = "ssl.ca.location" if "trust" in store else "ssl.certificate.location"
        config.setdefault(key, texts[store])
        if "key" in store.split(".")[1]:
            config.setdefault("ssl.key.location", texts[store])
    return {**_user_login(settings, config), **config}


def _user_login(settings: Settings, config: dict[str, str]) -> dict[str, str]:
    """Return what this user's file has for the component. Security settings for one of its two
    clients are its own for both: they have the same brokers."""
    brokers = settings.optional("kafka.bootstrap.servers")
    brokers = brokers or config.get("bootstrap.servers", DEFAULT_BROKERS)
    try:
        parse_addresses(brokers)
    except ConfigError as error:
        raise settings.wrong("kafka.bootstrap.servers", str(error)) from None
    own = (key for role in ("producer", "consumer") for key in settings.below(f"kafka.{role}"))
    return login_for(brokers, secured=any(map(is_security_key, own)), whose=settings.whose)


def _is_honoured(key: str, value: str) -> bool:
    if key in ("ssl.keystore.type", "ssl.truststore.type"):
        return value.upper() == "PEM"
    return key in CLIENT_CONFIG or key in _TRANSLATED


def client_settings(settings: Settings, role: str) -> ClientSettings:
    """Return the settings of a connection to Kafka.

    Args:
        role: "producer" or "consumer": which `kafka.<role>.*` keys to read.

    Raises:
        SettingError: a value cannot be used.
    """
    texts = _connection_texts(settings, role)
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
    config.update(_connection_texts(settings, "consumer"))
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
