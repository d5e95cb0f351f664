"""`kafka.*` options: Kafka's client configuration, as Java's clients and librdkafka spell it.

Rule 1: options that our client has are passed on; those that only tune Java's consumer are ignored.
Rule 2: an option that would change what is read, or the identity of the client, and that cannot be
honoured is an error. So is a name that Kafka does not know.
Rule 3: Java's options for a login (`sasl.jaas.config`) and PEM files (`ssl.truststore.location`)
are understood, so that options can be copied as they are.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client.java_option import JAVA_KEYS, from_java
from headrace.client.settings import CLIENT_CONFIG, ClientSettings
from headrace.client.user_login import WITHOUT_EFFECT
from headrace.model.error import ConfigError

IGNORED: Final = WITHOUT_EFFECT | frozenset(
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
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    )
)
"""Options of Kafka's consumer that have no effect here."""

_ACCEPTED: Final = IGNORED | JAVA_KEYS


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
    for name in kafka:
        if name not in CLIENT_CONFIG and name not in own and name not in _ACCEPTED:
            raise _unknown(name, own)
    ours = from_java(kafka, prefix="kafka.")
    found = {name: text.strip() for name, text in ours.items() if name in CLIENT_CONFIG}
    ClientSettings.of(found)  # reports wrong values now, on the driver
    return found


def _unknown(name: str, own: set[str]) -> ConfigError:
    known = {*CLIENT_CONFIG.keys, *own, *_ACCEPTED}
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean kafka.{near[0]}?" if near else ""
    return ConfigError(f"there is no option kafka.{name} that could be honoured here{hint}")
