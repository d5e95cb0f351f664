"""How the clients of a plan reach its brokers: the `kafka.*` settings of the plan.

Rule 1: they apply to every client of the plan: spouts, the sink and its staging topic, topics that
        are created, the audit. `source.kafka.*` and `sink.kafka.*` go before them.
Rule 2: a spout with settings of its own for security keeps those, and gets none of the plan's: it
        may read another cluster, which must not be sent this plan's password.
Rule 3: Java's `sasl.jaas.config` becomes `sasl.username` and `sasl.password` before Spark sees it:
        Spark hides the value of an option called password in plans, its pages and its event log.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.client.java_option import JAVA_KEYS, from_java
from headrace.client.settings import CLIENT_CONFIG, ClientSettings
from headrace.flow.plan.plan import Kind, Latency, Plan
from headrace.flow.plan.setting import prefixed
from headrace.model.error import ConfigError

KAFKA: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
_SECURITY: Final = ("security.", "sasl.", "ssl.")


def is_client_key(key: str) -> bool:
    """Return whether a key, with or without `kafka.`, is one of every client, brokers aside."""
    name = key.removeprefix(KAFKA)
    return name != _SERVERS and (name in CLIENT_CONFIG or name in JAVA_KEYS)


def is_security_key(key: str) -> bool:
    """Return whether a setting of a plan says how its clients log in."""
    return key.startswith(KAFKA) and key.removeprefix(KAFKA).startswith(_SECURITY)


def client_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the options, called `kafka.*`, by which every client of a plan connects.

    Raises:
        ConfigError: a login that is not whole, or a Java key store.
    """
    given = {
        key.removeprefix(KAFKA): text
        for key, text in settings.items()
        if key.startswith(KAFKA) and is_client_key(key)
    }
    return {f"{KAFKA}{name}": text for name, text in from_java(given, KAFKA).items()}


def client_of(settings: Mapping[str, str], brokers: str) -> dict[str, str]:
    """Return what `ClientSettings.of` takes, for a client of a plan.

    Raises:
        ConfigError: a setting has a wrong value.
    """
    options = client_options(settings)
    texts = {name.removeprefix(KAFKA): text for name, text in options.items()}
    return {**texts, _SERVERS: brokers}


def with_login(plan: Plan) -> Plan:
    """Return the plan whose spouts connect as its settings say.

    Raises:
        ConfigError: a setting has a wrong value.
    """
    for key in plan.settings:
        if key.startswith(KAFKA) and not is_client_key(key):
            raise ConfigError(
                f"the setting {key} is none that all clients of {plan.name} have: write"
                f" source.{key} or sink.{key}"
            )
    ClientSettings.of(client_of(plan.settings, "localhost:9092"))
    common = client_options(plan.settings) | client_options(prefixed(plan.settings, "source."))
    if plan.latency is Latency.REALTIME:
        return plan  # Spark's own connector understands Java's keys only
    components = {
        name: replace(each, work=_spout(each.work, common))
        if each.kind is Kind.SPOUT and hasattr(each.work, "options")
        else each
        for name, each in plan.components.items()
    }
    return replace(plan, components=components)


def _spout(spout: Any, common: Mapping[str, str]) -> Any:
    secured = any(is_security_key(key) for key in spout.options)
    login = {key: text for key, text in common.items() if not (secured and is_security_key(key))}
    changed = copy.copy(spout)
    changed.options = {**login, **without_java(spout.options)}
    return changed


def without_java(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with Java's keys replaced (rule 3).

    Raises:
        ConfigError: a login that is not whole, or a Java key store.
    """
    kafka = {
        key.removeprefix(KAFKA): text for key, text in options.items() if key.startswith(KAFKA)
    }
    others = {key: text for key, text in options.items() if not key.startswith(KAFKA)}
    return others | {f"{KAFKA}{name}": text for name, text in from_java(kafka, KAFKA).items()}
