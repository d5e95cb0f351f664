"""How the clients of a plan reach its brokers: the `kafka.*` settings of the plan.

Rule 1: they apply to every client of the plan: spouts, the sink and its staging topic, topics that
        are created, the audit. `source.kafka.*` and `sink.kafka.*` go before them.
Rule 2: a spout with settings of its own for security keeps those, and gets none of the plan's: it
        may read another cluster, which must not be sent this plan's password.
Rule 3: what a program does not say itself comes from this user's client.properties (`user_login`).
        A spout with brokers that are neither the program's nor in that file gets nothing of it.
Rule 4: Java's `sasl.jaas.config` becomes `sasl.username` and `sasl.password` before Spark sees it:
        Spark hides the value of an option called password in plans, its pages and its event log.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.client.address import parse_addresses
from headrace.client.java_option import JAVA_KEYS, from_java
from headrace.client.settings import CLIENT_CONFIG, ClientSettings
from headrace.client.user_login import is_security_key as is_client_security_key
from headrace.client.user_login import login_for, user_login
from headrace.flow.plan.plan import Kind, Latency, Plan
from headrace.flow.plan.setting import prefixed
from headrace.model.error import ConfigError

KAFKA: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
_PROTOCOL: Final = "kafka.security.protocol"


def is_client_key(key: str) -> bool:
    """Return whether a key, with or without `kafka.`, is one of every client, brokers aside."""
    name = key.removeprefix(KAFKA)
    return name != _SERVERS and (name in CLIENT_CONFIG or name in JAVA_KEYS)


def is_security_key(key: str) -> bool:
    """Return whether a setting of a plan says how its clients log in."""
    return key.startswith(KAFKA) and is_client_security_key(key.removeprefix(KAFKA))


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


def brokers_of(options: Mapping[str, str], otherwise: str) -> str:
    """Return the brokers that a source with these options reads: the option goes before others."""
    servers = f"{KAFKA}{_SERVERS}"
    return next((text for key, text in options.items() if key.lower() == servers), otherwise)


def user_settings(settings: Mapping[str, str], brokers: str, whose: str) -> dict[str, str]:
    """Return a program's settings over those of this user (rule 3).

    Raises:
        ConfigError: this user's file cannot be used, or an address cannot be read.
    """
    secured = any(is_security_key(key) for key in settings)
    login = login_for(brokers, secured=secured, whose=whose)
    return {**{f"{KAFKA}{key}": text for key, text in login.items()}, **settings}


def with_user_login(plan: Plan, brokers: str) -> Plan:
    """Return the plan with what this user's file has for it.

    Args:
        brokers: those of the program.

    Raises:
        ConfigError: as `user_settings`.
    """
    settings = user_settings(plan.settings, brokers, plan.name)
    return with_settings_of_user(plan, settings, brokers)


def with_settings_of_user(plan: Plan, settings: Mapping[str, str], brokers: str) -> Plan:
    """Return the plan with these settings, of which those for security that it has not itself are
    the user's: a spout of other brokers gets none of them (rule 3).

    Args:
        brokers: those of the program.
    """
    changed = replace(plan, settings=dict(settings))
    if not any(is_security_key(key) for key in settings.keys() - plan.settings.keys()):
        return changed
    known = ",".join(filter(None, (brokers, user_login().get(_SERVERS))))
    components = {
        name: replace(each, work=_open_elsewhere(each.work, known))
        if each.kind is Kind.SPOUT and hasattr(each.work, "options")
        else each
        for name, each in plan.components.items()
    }
    return replace(changed, components=components)


def _open_elsewhere(spout: Any, known: str) -> Any:
    """Return a spout that stays without a login if it reads other brokers and says none itself."""
    brokers = brokers_of(spout.options, getattr(spout, "brokers", known))
    if any(is_security_key(key) for key in spout.options) or _share(brokers, known):
        return spout
    changed = copy.copy(spout)
    changed.options = {_PROTOCOL: "PLAINTEXT", **spout.options}
    return changed


def _share(some: str, others: str) -> bool:
    return not set(parse_addresses(some)).isdisjoint(parse_addresses(others))


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
    """Return options with Java's keys replaced (rule 4).

    Raises:
        ConfigError: a login that is not whole, or a Java key store.
    """
    kafka = {
        key.removeprefix(KAFKA): text for key, text in options.items() if key.startswith(KAFKA)
    }
    others = {key: text for key, text in options.items() if not key.startswith(KAFKA)}
    return others | {f"{KAFKA}{name}": text for name, text in from_java(kafka, KAFKA).items()}
