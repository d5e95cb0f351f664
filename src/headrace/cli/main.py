"""The `headrace` command: nouns below, one file each, loaded only when they are asked for.

Exit codes: 0 done, 1 something failed, 2 the command or the configuration was wrong, 130 stopped
with Ctrl-C before it was done.
"""

import importlib
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from headrace import __version__
from headrace.model.error import ConfigError, HeadraceError, InvalidArgument

# Command name: (module under headrace.cli, attribute, one line of help).
_COMMANDS = {
    "demo": ("demo", "command", "See the whole way in miniature: a site, a broker, Spark."),
    "up": ("up", "command", "Start a broker."),
    "topic": ("topic.topic", "app", "Create, look at, change, write and read topics."),
    "group": ("group", "app", "Look at consumer groups and move their offsets."),
    "lag": ("lag", "command", "See how far every group is behind, and whether it matters."),
    "audit": ("audit", "app", "See whether everything that was sent arrived everywhere."),
    "console": ("console", "command", "Serve a page for a cluster in the browser."),
    "cluster": ("cluster", "app", "Look at a cluster's brokers, health and configuration."),
    "flow": ("flow.flow", "app", "Run stream programs on Spark, and look after those that run."),
    "sql": ("sql", "command", "Ask topics in SQL: streams, windows, joins, live tables."),
    "drpc": ("drpc", "app", "Call functions that topologies answer, over HTTP too."),
    "agent": ("agent", "app", "Collect events and move them: run a Flume configuration."),
    "log": ("log", "app", "Look into log segments on disk."),
    "doctor": ("doctor", "command", "Check this machine: Java, ports, disk, limits, versions."),
    "completion": ("completion", "command", "Print the completion script of a shell."),
}


class _LazyGroup(TyperGroup):
    """Imports a noun when it is used, so that `headrace --help` loads none of them."""

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
            # The reader of our output went away (`| head`): not an error, and nothing more to say.
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


def main() -> None:
    """The console script. A user's mistake is one sentence on standard error, never a traceback."""
    try:
        app()
    except (ConfigError, InvalidArgument) as error:
        fail(str(error), 2)
    except HeadraceError as error:
        fail(str(error), 1)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        _flush()


def _flush() -> None:
    """Write out what is left, so that the interpreter does not complain about a reader that went
    away (`| head`) when it can no longer be told from a crash."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, code: int) -> None:
    print(f"headrace: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
