"""`headrace console`: a web page for any Kafka cluster."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.registry_option import REGISTRY_VARIABLE, optional_registry
from headrace.cli.terminal.until_signal import until_signal
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.model.error import ConfigError

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace console                                      for the cluster at 127.0.0.1:9092

  headrace console --bootstrap kafka-1:9092 --read-only

  headrace console --users users.txt --add-user ada --role admin    asks for a password

  headrace console --users users.txt --listen 0.0.0.0:8080

  headrace console --registry http://127.0.0.1:8081     decode values by their schemas

  headrace console --mirror mirror.properties           lag and age between clusters

  headrace console --mask email --mask 'payments:*'     hide fields, hide all of a topic

Without --users there is no login, everyone may change everything, and the console listens on
loopback only. Every change is written to the topic headrace.console.changes before it is made.
"""


@command.command(epilog=epilog(_EXAMPLES))
def console(
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT,...", help="The same as --brokers."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve the page.")
    ] = "127.0.0.1:8080",
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change.")] = False,
    users: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The users and their roles.")
    ] = None,
    add_user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Add a user to --users, and end.")
    ] = None,
    role: Annotated[str, typer.Option(help="Of --add-user: viewer, editor or admin.")] = "viewer",
    mask: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help="Hide FIELD, TOPIC:FIELD or TOPIC:*; repeatable."),
    ] = None,
    avro_schema: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=FILE", help="The schema of a topic's values."),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL,...",
            help=f"Where the schema registry is; else ${REGISTRY_VARIABLE}, else"
            f" ${CLIENT_CONFIG_VARIABLE}'s. Its login:"
            " -X schema.registry.basic.auth.user.info=NAME:SECRET.",
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="An agent's /metrics, for the Agents page."),
    ] = None,
    flow: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="A flow's metrics, for the Flows page."),
    ] = None,
    mirror: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A mirror's file, for the Mirrors page; repeatable."),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.5, max=300, help="Seconds between two requests to the cluster.")
    ] = 2.0,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Serve the console until Ctrl-C."""
    try:
        from headrace.console.access.user import Users
        from headrace.console.message.mask import Masks
        from headrace.console.server import ConsoleServer
        from headrace.console.settings import ConsoleSettings, read_schemas, read_urls
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the console needs {error.name}: pip install 'headrace[console]'"
        ) from error
    if add_user is not None:
        _add_user(users, add_user, role)
        return
    pairs, registry_client = optional_registry(registry, setting)
    with connect(bootstrap or brokers, pairs) as pool:
        client = pool.settings
    settings = ConsoleSettings(
        client,
        listen=parse_listen_address(listen, "--listen"),
        read_only=read_only,
        users=None if users is None else Users.read(users),
        masks=Masks(mask or ()),
        schemas=read_schemas(avro_schema or ()),
        registry=registry_client,
        agents=read_urls(agent or (), "--agent"),
        flows=read_urls(flow or (), "--flow"),
        mirrors=tuple(map(MirrorFile.read, mirror or ())),
        interval_seconds=interval,
    )
    server = ConsoleServer(settings)
    print(f"The console is at {server.url}", flush=True)
    with until_signal():
        server.run()
    print("Stopped.")


def _add_user(path: Path | None, name: str, role: str) -> None:
    from headrace.console.access.user import Role, add_user

    if path is None:
        raise ConfigError("--add-user needs the file of users: add --users FILE")
    chosen = Role.named(role)
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    add_user(path, name, chosen, password)
    print(f"{name} is in {path} as {chosen.name.lower()}.")
