"""`headrace sql`: topics as streaming tables."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.sql_output import SqlOutput
from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import (
    BrokersOption,
    VerboseOption,
    bootstrap_servers,
    kafka_pairs,
)
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.pair import parse_pairs
from headrace.cli.terminal.stop import Stop
from headrace.flow.error import FlowError
from headrace.flow.plan.client_option import client_options
from headrace.flow.sql.parser import is_complete, parse
from headrace.flow.sql.statement import EmitMode, SelectStatement
from headrace.flow.storage.location import Location
from headrace.model.error import ConfigError, HeadraceError

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace sql                                 a prompt

  headrace sql script.sql                      run the statements of a file

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
        Path | None, typer.Argument(metavar="FILE", help="Statements, separated by ; (- is stdin).")
    ] = None,
    statement: Annotated[
        str | None, typer.Option("-e", "--execute", metavar="STATEMENT", help="Run this, and end.")
    ] = None,
    brokers: BrokersOption = None,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master.")] = None,
    catalog: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the definitions of streams there.")
    ] = None,
    checkpoints: Annotated[
        str, typer.Option(metavar="DIR|URI", help="Where CREATE STREAM AS keeps its checkpoints.")
    ] = "sql.checkpoints",
    available_now: Annotated[
        bool,
        typer.Option(
            "--available-now", help="Fill streams with the records up to now, then continue."
        ),
    ] = False,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    verbose: VerboseOption = False,
    pairs: Annotated[
        list[str] | None,
        typer.Option("-X", metavar="KEY=VALUE", help="spark.*, or kafka.* for the brokers."),
    ] = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Query topics in SQL. What CREATE STREAM AS and INSERT INTO start runs until Ctrl-C."""
    if file is not None and statement is not None:
        raise ConfigError("-e and FILE exclude each other: leave one out")
    script = _script(file, statement)
    if script is not None:
        for _ in parse(script):  # report a mistake before Spark starts
            pass
    seconds = None if duration is None else parse_duration(duration)
    deadline = None if seconds is None else time.monotonic() + seconds
    from headrace.cli.flow.flow_run import RunOptions, spark_for
    from headrace.flow.sql.catalog import Catalog
    from headrace.flow.sql.engine import Engine

    servers = bootstrap_servers(brokers)
    options = RunOptions(
        program="sql",
        brokers=servers,
        checkpoint=Location.of(checkpoints),
        master=master,
        verbose=verbose,
    )
    texts = kafka_pairs(parse_pairs(pairs, "-X"))
    client = client_options(texts)  # reports a mistake before Spark starts
    output = SqlOutput(style)
    streams = Catalog(catalog)
    if script is None:
        print("Starting Spark ...", flush=True)
    with Stop() as stop, spark_for("headrace sql", options, texts) as spark:

        def stopped() -> bool:
            return stop.requested or (deadline is not None and time.monotonic() > deadline)

        engine = Engine(
            spark, servers, streams, options.checkpoint, once=available_now, client=client
        )
        try:
            if script is None:
                _prompt(engine, output, stop)
            else:
                run_script(engine, script, output, stopped)
                _wait(engine, stopped)
        finally:
            engine.stop()


def run_script(engine: Any, script: str, output: SqlOutput, stopped: Callable[[], bool]) -> None:
    """Run the statements of a script in order.

    Raises:
        SqlError: a statement failed; later ones are not run.
    """
    for each in parse(script):
        if stopped():
            return
        if isinstance(each, SelectStatement) and each.emit is not EmitMode.NOW:
            with output.emitting() as show:
                engine.emit(each, script, show, stopped)
        else:
            output.answer(engine.run(each, script))


def _wait(engine: Any, stopped: Callable[[], bool]) -> None:
    """Wait while the queries run that the script started.

    Raises:
        FlowError: a query failed.
    """
    while engine.running and not stopped():
        time.sleep(_POLL_SECONDS)
    failure = engine.failed()
    if failure is not None:
        raise FlowError(failure)


def _prompt(engine: Any, output: SqlOutput, stop: Stop) -> None:
    """Read and run statements from a prompt. An error is printed, and the prompt returns. Ctrl-C
    stops an EMIT or clears the input; Ctrl-D ends."""
    import readline  # noqa: F401 - editing and a history of lines

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
    """Return the statements to run; None: show a prompt."""
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
