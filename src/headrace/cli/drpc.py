"""`headrace drpc`: call functions of topologies."""

import sys
import time
from typing import Annotated

import typer

from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.option import BrokersOption, SettingsOption, client_settings
from headrace.cli.terminal.stop import Stop
from headrace.client.address import Address
from headrace.client.settings import DEFAULT_BROKERS
from headrace.flow.drpc.client import DrpcClient
from headrace.flow.drpc.function_topics import FunctionTopics
from headrace.flow.drpc.gateway import DEFAULT_PORT, Gateway
from headrace.model.error import ConfigError
from headrace.telemetry.browser_guard import is_loopback_address

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

FunctionArgument = Annotated[str, typer.Argument(metavar="FUNCTION", help="The function's name.")]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="How long to wait: 10s, 1m.")
]

_SERVE = """
Examples:

  headrace drpc serve &

  curl -d 'https://example.com/1' http://127.0.0.1:3774/drpc/reach
"""
_POLL_SECONDS = 0.2
_SERVERS = "bootstrap.servers"


@app.command()
def create(
    function: FunctionArgument,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    partitions: Annotated[
        int, typer.Option("-p", min=1, help="Partitions of the request topic.")
    ] = 1,
) -> None:
    """Create the topics of a function, before its topology runs."""
    topics = FunctionTopics(function)
    client = client_settings(brokers, setting)
    topics.create(client.get(_SERVERS, DEFAULT_BROKERS), partitions, settings=client)
    print(f"{function} has {topics.requests}, {topics.replies} and {topics.failures}.")


@app.command()
def call(
    function: FunctionArgument,
    argument: Annotated[
        str, typer.Argument(metavar="ARGUMENT", help="- reads it from standard input.")
    ] = "",
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    timeout: TimeoutOption = "10s",
) -> None:
    """Call a function and print its result."""
    text = sys.stdin.read() if argument == "-" else argument
    client = client_settings(brokers, setting)
    servers = client.get(_SERVERS, DEFAULT_BROKERS)
    with DrpcClient(function, brokers=servers, settings=client) as caller:
        print(caller.execute(text, timeout_seconds=parse_duration(timeout)))


@app.command(epilog=epilog(_SERVE))
def serve(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; there is no login.")
    ] = f"127.0.0.1:{DEFAULT_PORT}",
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    timeout: TimeoutOption = "10s",
) -> None:
    """Accept calls over HTTP: POST /drpc/FUNCTION with the argument as the body."""
    address = parse_listen_address(listen, "--listen")
    client = client_settings(brokers, setting)
    try:
        gateway = Gateway(
            address.host,
            address.port,
            brokers=client.get(_SERVERS, DEFAULT_BROKERS),
            settings=client,
            timeout_seconds=parse_duration(timeout),
        )
    except OSError as error:
        raise ConfigError(f"cannot listen on {listen}: {error.strerror}") from error
    if not is_loopback_address(address.host):
        print(
            f"headrace: warning: every client that reaches {listen} can call every function: there "
            "is no login and no encryption. Put a proxy with both before it, or listen on "
            "127.0.0.1.",
            file=sys.stderr,
            flush=True,
        )
    with Stop() as stop:
        gateway.start()
        url = f"http://{Address(address.host, gateway.port)}/drpc/"
        print(f"Calls are taken on {url}", flush=True)
        while not stop.requested:
            time.sleep(_POLL_SECONDS)
        gateway.stop()
    print("Stopped.", flush=True)
