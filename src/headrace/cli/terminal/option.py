"""The options of every command that talks to a cluster."""

import os
from collections.abc import Mapping
from typing import Annotated

import typer

from headrace.cli.terminal.pair import parse_pairs
from headrace.client.java_option import JAVA_KEYS, from_java
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import CLIENT_CONFIG, DEFAULT_BROKERS, ClientSettings
from headrace.client.user_login import user_login
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE

REGISTRY_PREFIX = "schema.registry."
"""How the settings of a schema registry begin, which may stand beside those of brokers."""

BROKERS_VARIABLE = "HEADRACE_BROKERS"


AuditOption = Annotated[
    bool | None,
    typer.Option(
        "--audit/--no-audit",
        help="Count records for the audit; by default only if the audit topic exists.",
    ),
]
BrokersOption = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--brokers",
        metavar="HOST:PORT,...",
        help=f"Bootstrap brokers; else ${BROKERS_VARIABLE}, else ${CLIENT_CONFIG_VARIABLE}'s,"
        f" else {DEFAULT_BROKERS}.",
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="A client setting, such as sasl.username."),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Show what Spark writes, instead of keeping it in a file.")
]
TracebackOption = Annotated[
    bool, typer.Option("--traceback", help="When the flow fails, print Spark's whole message.")
]

_BROKERS = ("bootstrap.servers", "brokers")


def bootstrap_servers(brokers: str | None) -> str:
    """Return the brokers to ask first: those of `-b`, of the environment, of the file that
    `$HEADRACE_CLIENT_CONFIG` names, or the default."""
    return (
        brokers
        or os.environ.get(BROKERS_VARIABLE)
        or user_login().get("bootstrap.servers")
        or DEFAULT_BROKERS
    )


def client_settings(brokers: str | None, settings: list[str] | None) -> dict[str, str]:
    """Return the settings of a command's clients, for `ClientSettings.of`.

    `-b` overrides `-X bootstrap.servers`, that the environment, and all of them the file of
    `$HEADRACE_CLIENT_CONFIG`. Settings of a schema registry are left out, but must exist.
    """
    pairs = parse_pairs(settings, "-X")
    if any(key.startswith(REGISTRY_PREFIX) for key in pairs):
        pairs = _without_registry(pairs)
    texts = from_java(pairs)
    if "brokers" in texts:  # rpk's name for it
        texts.setdefault("bootstrap.servers", texts.pop("brokers"))
    if brokers is not None:
        texts["bootstrap.servers"] = brokers
    elif "bootstrap.servers" not in texts and os.environ.get(BROKERS_VARIABLE):
        texts["bootstrap.servers"] = os.environ[BROKERS_VARIABLE]
    return {**user_login(), **texts}


def _without_registry(pairs: Mapping[str, str]) -> dict[str, str]:
    from headrace.serde.registry_client_settings import REGISTRY_CONFIG, RegistryClientSettings

    ours, registry = RegistryClientSettings.split(pairs)
    REGISTRY_CONFIG.parse(registry)
    return ours


def kafka_pairs(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the pairs of a query, those of `$HEADRACE_CLIENT_CONFIG` where it has none itself."""
    return kafka_login() | kafka_names(texts)


def kafka_login() -> dict[str, str]:
    """Return the client settings of `$HEADRACE_CLIENT_CONFIG`, under their names for Spark."""
    return {f"kafka.{key}": text for key, text in user_login().items() if key not in _BROKERS}


def kafka_names(texts: Mapping[str, str]) -> dict[str, str]:
    """Return pairs with client settings under their names for Spark, which writes
    `kafka.sasl.username` for `sasl.username`."""
    known = {*CLIENT_CONFIG.keys, *JAVA_KEYS} - {*_BROKERS}
    return {f"kafka.{key}" if key in known else key: text for key, text in texts.items()}


def connect(brokers: str | None, settings: list[str] | None) -> ConnectionPool:
    """Return connections to the cluster of a command."""
    return ConnectionPool(ClientSettings.of(client_settings(brokers, settings)))
