"""`kafka.*` options: Kafka's client configuration, as Java's clients and librdkafka spell it.

Rule 1: options that our client has are passed on; those that only tune Java's consumer are ignored.
Rule 2: an option that would change what is read, or the identity of the client, and that cannot be
honoured is an error. So is a name that Kafka does not know.
Rule 3: Java's options for a login (`sasl.jaas.config`) and PEM files (`ssl.truststore.location`)
are understood, so that options can be copied as they are.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client.settings import CLIENT_CONFIG, ClientSettings
from headrace.model.error import ConfigError

IGNORED: Final = frozenset(
    (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "security.providers",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
"""Options of Kafka's consumer that have no effect here."""

_PEM_STORES: Final = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
_STORE_KEYS: Final = frozenset(
    f"{store}.{what}" for store in _PEM_STORES for what in ("location", "type", "password")
)
_JAAS_LOGIN: Final = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


def client_texts(kafka: Mapping[str, str], others: Iterable[str] = ()) -> dict[str, str]:
    """Convert `kafka.*` options, without their prefix, to what `ClientSettings.of` takes.

    Args:
        others: names that the caller reads itself: `group.id`, `acks`, ...

    Raises:
        ConfigError: an option that Kafka's client, or ours, does not have.
    """
    own = set(others)
    if not kafka.get("bootstrap.servers", "").strip():
        raise ConfigError("say where the brokers are: option kafka.bootstrap.servers is missing")
    found: dict[str, str] = {}
    for name, text in kafka.items():
        if name in CLIENT_CONFIG:
            found[name] = text.strip()
        elif name == "sasl.jaas.config":
            found |= _login(text)
        elif name not in own and name not in IGNORED and name not in _STORE_KEYS:
            raise _unknown(name, own)
    for store, targets in _PEM_STORES.items():
        found |= _pem(store, targets, kafka)
    if "ssl.key.password" not in found and "ssl.keystore.password" in kafka:
        found["ssl.key.password"] = kafka["ssl.keystore.password"]
    ClientSettings.of(found)  # reports wrong values now, on the driver
    return found


def _login(text: str) -> dict[str, str]:
    """Parse a JAAS line: `...ScramLoginModule required username="a" password="b";`."""
    parts = {name: _ESCAPED.sub(r"\1", value) for name, value in _JAAS_LOGIN.findall(text)}
    if set(parts) != {"username", "password"}:
        raise ConfigError(
            "option kafka.sasl.jaas.config has no username and password in double quotes; "
            "or write kafka.sasl.username and kafka.sasl.password"
        )
    return {f"sasl.{name}": value for name, value in parts.items()}


def _pem(store: str, targets: tuple[str, ...], kafka: Mapping[str, str]) -> dict[str, str]:
    location = kafka.get(f"{store}.location")
    if location is None:
        return {}
    kind = kafka.get(f"{store}.type", "PEM" if location.endswith(".pem") else "JKS").strip()
    if kind.upper() != "PEM":
        raise ConfigError(
            f"option kafka.{store}.location is a Java key store ({kind}), which is not read here: "
            f"write kafka.{targets[0]} with a PEM file"
        )
    return dict.fromkeys(targets, location.strip())


def _unknown(name: str, own: set[str]) -> ConfigError:
    known = {*CLIENT_CONFIG.keys, *own, *IGNORED, *_STORE_KEYS, "sasl.jaas.config"}
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean kafka.{near[0]}?" if near else ""
    return ConfigError(f"there is no option kafka.{name} that could be honoured here{hint}")
