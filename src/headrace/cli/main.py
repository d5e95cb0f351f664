"""The `headrace` command: nouns below, one file each, loaded only when they are asked for.

Exit codes: 0 done, 1 something failed, 2 the command or the configuration was wrong.
"""

import importlib
import sys
from typing import Any

import click
import typer
from typer.core import TyperGroup

from headrace import __version__
from headrace.model.error import ConfigError, HeadraceError, InvalidArgument

# Command name: (module under headrace.cli, attribute, one line of help).
_COMMANDS = {
    "up": ("up", "command", "Start a broker."),
    "log": ("log", "app", "Look into log segments on disk."),
}


class _LazyGroup(TyperGroup):
    """Imports a noun when it is used, so that `headrace --help` does not load numba or pyarrow."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        entry = _COMMANDS.get(name)
        if entry is None:
            return None
        module, attribute, summary = entry
        app: typer.Typer = getattr(importlib.import_module(f"headrace.cli.{module}"), attribute)
        command = typer.main.get_command(app)
        command.name = name
        command.short_help = summary
        return command


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
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error, but nothing more to say.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)


def fail(message: str, code: int) -> None:
    click.echo(f"headrace: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
