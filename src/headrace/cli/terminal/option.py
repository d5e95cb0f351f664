"""The options of every noun that talks to a cluster."""

import os
from typing import Annotated

import typer

from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import DEFAULT_BROKERS, ClientSettings
from headrace.model.error import ConfigError

BROKERS_VARIABLE = "HEADRACE_BROKERS"


AuditOption = Annotated[
    bool | None,
    typer.Option(
        "--audit/--no-audit",
        help="Count what is read for the audit; without it, if the audit's topic is there.",
    ),
]
BrokersOption = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--brokers",
        metavar="HOST:PORT,...",
        help=f"Brokers to ask first; else ${BROKERS_VARIABLE}, else {DEFAULT_BROKERS}.",
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="A client setting, such as bootstrap.servers."),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Show what Spark writes, instead of keeping it in a file.")
]
TracebackOption = Annotated[
    bool, typer.Option("--traceback", help="Of a failure, show everything that Spark says.")
]


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """The `key=value` pairs of an option that may be repeated.

    >>> parse_pairs(["retention.ms=1000", "cleanup.policy=compact"], "-c")
    {'retention.ms': '1000', 'cleanup.policy': 'compact'}

    Raises:
        ConfigError: one of them has no `=`.
    """
    found = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{option} {pair} has no value: write it as {option} key=value")
        found[key.strip()] = value.strip()
    return found


def connect(brokers: str | None, settings: list[str] | None) -> ConnectionPool:
    """The cluster a command is about: `-b` goes before `-X`, and that before the environment."""
    texts = parse_pairs(settings, "-X")
    if "brokers" in texts:  # rpk's name for it
        texts.setdefault("bootstrap.servers", texts.pop("brokers"))
    if brokers is not None:
        texts["bootstrap.servers"] = brokers
    elif "bootstrap.servers" not in texts and os.environ.get(BROKERS_VARIABLE):
        texts["bootstrap.servers"] = os.environ[BROKERS_VARIABLE]
    return ConnectionPool(ClientSettings.of(texts))
