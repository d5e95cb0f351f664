"""All nouns of the `headrace` command: one module each, loaded when the noun is used."""

import importlib
from typing import Any

import typer
from typer.core import TyperGroup

from headrace import __version__

# Command name: (module under headrace.cli, attribute, one line of help).
_COMMANDS = {
    "demo": ("demo", "command", "Try everything at once: a website, a broker, an agent, Spark."),
    "up": ("broker.up", "command", "Start a broker."),
    "topic": ("topic.topic", "app", "Create, describe, change, write and read topics."),
    "group": ("group", "app", "Describe consumer groups and move their offsets."),
    "lag": ("lag", "command", "Show how far every group is behind, and whether it keeps up."),
    "audit": ("audit", "app", "Check that every sent record arrived everywhere."),
    "console": ("console", "command", "Serve a web page for a cluster."),
    "kinesis": ("kinesis.kinesis", "app", "Serve the Kinesis API from a cluster's topics."),
    "registry": ("registry", "app", "Serve a schema registry from a cluster's topic _schemas."),
    "schema": ("schema.schema", "app", "Register, show, compare and delete schemas."),
    "rest": ("rest", "app", "Serve Confluent's REST API for a cluster."),
    "mirror": ("mirror", "app", "Copy topics between clusters: run a MirrorMaker 2 file."),
    "cluster": ("cluster", "app", "Show a cluster's brokers, health and configuration."),
    "flow": ("flow.flow", "app", "Run stream programs on Spark, and manage the running ones."),
    "land": ("table.land", "command", "Land a topic in a Delta or Iceberg table, exactly once."),
    "table": ("table.table", "app", "Show, compact and clean up tables of `headrace land`."),
    "sql": ("sql", "command", "Query topics in SQL: streams, windows, joins, live tables."),
    "drpc": ("drpc", "app", "Call functions of topologies, also over HTTP."),
    "agent": ("agent", "app", "Collect and move events: run a Flume configuration."),
    "log": ("log", "app", "Print log segments on disk."),
    "doctor": ("doctor", "command", "Check this machine: Java, ports, disk, limits, versions."),
    "completion": ("completion", "command", "Print the completion script for a shell."),
}


class _LazyGroup(TyperGroup):
    """Imports a noun when it is used, so that `headrace --help` loads none."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute, summary = entry
        app: typer.Typer = getattr(importlib.import_module(f"headrace.cli.{module}"), attribute)
        command = typer.main.get_command(app)
        command.name = cmd_name
        command.short_help = summary
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output is gone (`| head`): that is no error.
            raise typer.Exit(0) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in _COMMANDS.items()])


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A durable log that speaks Kafka's protocol, with ingestion and Spark on top.",
)


@app.callback(invoke_without_command=True)
def root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        print(f"headrace {__version__}")
        raise typer.Exit
