"""The options of every command that talks to a cluster."""

import os
from typing import Annotated

import typer

from headrace.cli.terminal.pair import parse_pairs
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import DEFAULT_BROKERS, ClientSettings

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
        help=f"Bootstrap brokers; else ${BROKERS_VARIABLE}, else {DEFAULT_BROKERS}.",
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
    bool, typer.Option("--traceback", help="When the flow fails, print Spark's whole message.")
]


def bootstrap_servers(brokers: str | None) -> str:
    """Return the brokers to ask first: those of `-b`, of the environment, or the default."""
    return brokers or os.environ.get(BROKERS_VARIABLE) or DEFAULT_BROKERS


def connect(brokers: str | None, settings: list[str] | None) -> ConnectionPool:
    """Return connections to the cluster of a command.

    `-b` overrides `-X bootstrap.servers`, and that overrides the environment.
    """
    texts = parse_pairs(settings, "-X")
    if "brokers" in texts:  # rpk's name for it
        texts.setdefault("bootstrap.servers", texts.pop("brokers"))
    if brokers is not None:
        texts["bootstrap.servers"] = brokers
    elif "bootstrap.servers" not in texts and os.environ.get(BROKERS_VARIABLE):
        texts["bootstrap.servers"] = os.environ[BROKERS_VARIABLE]
    return ConnectionPool(ClientSettings.of(texts))
