"""`headrace drpc`: call functions that topologies answer."""

import os
import sys
import time
from typing import Annotated

import typer

from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BROKERS_VARIABLE, BrokersOption
from headrace.cli.terminal.stop import Stop
from headrace.client.settings import DEFAULT_BROKERS
from headrace.flow.drpc.client import DrpcClient
from headrace.flow.drpc.function_topics import FunctionTopics
from headrace.flow.drpc.gateway import DEFAULT_PORT, Gateway
from headrace.model.error import ConfigError

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

FunctionArgument = Annotated[str, typer.Argument(metavar="FUNCTION", help="Its name.")]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="How long to wait: 10s, 1m.")
]

_SERVE = """
Examples:

  headrace drpc serve &

  curl -d 'https://example.com/1' http://127.0.0.1:3774/drpc/reach
"""
_POLL_SECONDS = 0.2


@app.command()
def create(
    function: FunctionArgument,
    brokers: BrokersOption = None,
    partitions: Annotated[int, typer.Option("-p", min=1, help="Of its requests.")] = 1,
) -> None:
    """Make the topics of a function, before its topology runs."""
    exchange = FunctionTopics(function)
    exchange.create(_brokers(brokers), partitions)
    print(f"{function} has {exchange.requests}, {exchange.replies} and {exchange.failures}.")


@app.command()
def call(
    function: FunctionArgument,
    argument: Annotated[
        str, typer.Argument(metavar="ARGUMENT", help="- takes it from standard input.")
    ] = "",
    brokers: BrokersOption = None,
    timeout: TimeoutOption = "10s",
) -> None:
    """Call a function and print what it answers."""
    text = sys.stdin.read() if argument == "-" else argument
    with DrpcClient(function, brokers=_brokers(brokers)) as client:
        print(client.execute(text, timeout_seconds=parse_duration(timeout)))


@app.command(epilog=epilog(_SERVE))
def serve(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where; it has no login.")
    ] = f"127.0.0.1:{DEFAULT_PORT}",
    brokers: BrokersOption = None,
    timeout: TimeoutOption = "10s",
) -> None:
    """Take calls over HTTP: POST /drpc/FUNCTION with the argument as the body."""
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--listen cannot be {listen!r}: write it as host:port")
    try:
        gateway = Gateway(
            host.strip("[]") or "127.0.0.1",
            int(port),
            brokers=_brokers(brokers),
            timeout_seconds=parse_duration(timeout),
        )
    except OSError as error:
        raise ConfigError(f"cannot listen on {listen}: {error.strerror}") from error
    with Stop() as stop:
        gateway.start()
        print(f"Calls are taken on http://{host or '127.0.0.1'}:{gateway.port}/drpc/", flush=True)
        while not stop.requested:
            time.sleep(_POLL_SECONDS)
        gateway.stop()
    print("Stopped.", flush=True)


def _brokers(told: str | None) -> str:
    return told or os.environ.get(BROKERS_VARIABLE) or DEFAULT_BROKERS
