"""`headrace sql`: topics as streaming tables."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.sql_output import SqlOutput
from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BROKERS_VARIABLE, BrokersOption, VerboseOption, parse_pairs
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.stop import Stop
from headrace.client.settings import DEFAULT_BROKERS
from headrace.flow.error import FlowError
from headrace.flow.sql.parser import is_complete, parse
from headrace.flow.sql.statement import Emit, Select
from headrace.model.error import ConfigError, HeadraceError

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace sql                                 a prompt

  headrace sql script.sql                      the statements of a file

  headrace sql --catalog streams.json -e 'SELECT page, count(*) FROM views GROUP BY page EMIT'

A first script:

  CREATE STREAM views (page STRING, ms INT, at TIMESTAMP) WITH (topic = 'views', timestamp = 'at');

  CREATE STREAM slow AS SELECT page, ms FROM views WHERE ms > 500;

  SELECT page, count(*) AS n FROM views GROUP BY page EMIT;
"""
_PROMPT, _MORE = "headrace> ", "       -> "
_MAX_SCRIPT = 1 << 20
_POLL_SECONDS = 0.2


@command.command(epilog=epilog(_EXAMPLES))
def sql(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Statements, with ; between; - is stdin.")
    ] = None,
    statement: Annotated[
        str | None, typer.Option("-e", "--execute", metavar="STATEMENT", help="Do this, and end.")
    ] = None,
    brokers: BrokersOption = None,
    master: Annotated[str | None, typer.Option(metavar="URL", help="A master of Spark's.")] = None,
    catalog: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Remember the streams there.")
    ] = None,
    checkpoints: Annotated[
        Path, typer.Option(metavar="DIR", help="Where CREATE STREAM AS remembers how far it is.")
    ] = Path("sql.checkpoints"),
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Fill streams with what is there, then go on.")
    ] = False,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    verbose: VerboseOption = False,
    pairs: Annotated[
        list[str] | None, typer.Option("-X", metavar="spark.KEY=VALUE", help="For Spark.")
    ] = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Ask topics in SQL. What CREATE STREAM AS and INSERT INTO start runs until Ctrl-C."""
    if file is not None and statement is not None:
        raise ConfigError("-e and FILE cannot both be: leave one out")
    script = _script(file, statement)
    if script is not None:
        for _ in parse(script):  # a mistake is told before Spark starts
            pass
    seconds = None if duration is None else parse_duration(duration)
    deadline = None if seconds is None else time.monotonic() + seconds
    from headrace.cli.flow.execution import RunOptions, spark_for
    from headrace.flow.sql.catalog import Catalog
    from headrace.flow.sql.engine import Engine

    where = brokers or os.environ.get(BROKERS_VARIABLE) or DEFAULT_BROKERS
    order = RunOptions(
        program="sql", brokers=where, checkpoint=checkpoints, master=master, verbose=verbose
    )
    output = SqlOutput(style)
    known = Catalog(catalog)
    if script is None:
        print("Starting Spark ...", flush=True)
    with Stop() as stop, spark_for("headrace sql", order, parse_pairs(pairs, "-X")) as spark:

        def stopped() -> bool:
            return stop.requested or (deadline is not None and time.monotonic() > deadline)

        engine = Engine(spark, where, known, checkpoints, once=available_now)
        try:
            if script is None:
                _prompt(engine, output, stop)
            else:
                run_script(engine, script, output, stopped)
                _wait(engine, stopped)
        finally:
            engine.stop()


def run_script(engine: Any, script: str, output: SqlOutput, stopped: Callable[[], bool]) -> None:
    """The statements of a script, one after the other.

    Raises:
        SqlError: the first that cannot be carried out.
    """
    for each in parse(script):
        if stopped():
            return
        if isinstance(each, Select) and each.emit is not Emit.NOW:
            with output.emitting() as show:
                engine.emit(each, script, show, stopped)
        else:
            output.answer(engine.run(each, script))


def _wait(engine: Any, stopped: Callable[[], bool]) -> None:
    """As long as what was started runs."""
    while engine.running and not stopped():
        time.sleep(_POLL_SECONDS)
    failure = engine.failed()
    if failure is not None:
        raise FlowError(failure)


def _prompt(engine: Any, output: SqlOutput, stop: Stop) -> None:
    """Statement after statement; a mistake is told and forgotten. Ctrl-C stops what EMITs, or
    clears what was typed; Ctrl-D ends."""
    import readline  # noqa: F401 - lines can be edited, and come again

    print("Statements end with a semicolon. Ctrl-C stops an EMIT, Ctrl-D ends.")
    typed = ""
    while True:
        stop.requested = False
        try:
            with stop.waiting():
                typed += input(_MORE if typed else _PROMPT) + "\n"
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            typed = ""
            continue
        if not is_complete(typed):
            continue
        script, typed = typed, ""
        try:
            run_script(engine, script, output, lambda: stop.requested)
        except HeadraceError as error:
            print(error)


def _script(file: Path | None, statement: str | None) -> str | None:
    """What to do; None: ask at a prompt."""
    if statement is not None:
        return statement
    if file is None and sys.stdin.isatty():
        return None
    try:
        if file is None or str(file) == "-":
            text = sys.stdin.read(_MAX_SCRIPT + 1)
        else:
            text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    if len(text) > _MAX_SCRIPT:
        raise ConfigError(f"a script has at most {_MAX_SCRIPT:,} characters")
    return text
