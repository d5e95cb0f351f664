"""`headrace registry`: a schema registry on a Kafka cluster."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.gateway_user import add_gateway_user
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.log_choice import configure_logging
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.until_signal import until_signal
from headrace.model.error import ConfigError

app = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)
user_app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(user_app, name="user", help="Manage who may read and write schemas.")

_EXAMPLES = """
Examples:

  headrace registry                                 on 127.0.0.1:8081, for the cluster at :9092

  headrace registry --listen 127.0.0.1:8081 -b kafka-1:9092

  headrace registry user add ann --users users.txt --write 'orders-*'      prints the secret

  headrace registry --users users.txt --listen 0.0.0.0:8081

  headrace registry --listen 0.0.0.0:8081 --advertise registry-1:8081      one of several

  headrace registry -b eu-1:9092 --wait-for-topic      where a mirror copies the schemas of another

  curl localhost:8081/subjects

The schemas are in the topic _schemas, as Confluent's and Karapace's registries keep them.
docs/registry.md lists what works.
"""

_USER_EXAMPLES = """
Examples:

  headrace registry user add ann --users users.txt --write 'orders-*' --read 'users-*'

  headrace registry user add viewer --users users.txt --read '*'           reads everything

  headrace registry user add admin --users users.txt --write '*'           may do everything
"""


@app.callback(epilog=epilog(_EXAMPLES))
def registry(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve the API.")
    ] = "127.0.0.1:8081",
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where other instances reach this one."),
    ] = None,
    topic: Annotated[str, typer.Option(help="The topic of the schemas.")] = "_schemas",
    wait_for_topic: Annotated[
        bool,
        typer.Option(
            "--wait-for-topic",
            help="Wait until the topic is there instead of creating it: a mirror will.",
        ),
    ] = False,
    group: Annotated[
        str, typer.Option(help="The group in which instances elect their leader.")
    ] = "schema-registry",
    eligible: Annotated[
        bool, typer.Option("--eligible/--not-eligible", help="Whether this instance may lead.")
    ] = True,
    users: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may log in; else everyone may.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Another instance, which may see users' secrets: with --users, writes are sent "
            "on to these only; repeatable.",
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve TLS with this PEM certificate.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its key, unless it is in the same file.")
    ] = None,
    tls_authority: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Who signs the certificates of other instances."),
    ] = None,
    session_timeout_ms: Annotated[
        int,
        typer.Option(min=6000, metavar="MS", help="How long a silent leader keeps the lead."),
    ] = 10_000,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
) -> None:
    """Serve a schema registry until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    try:
        from headrace.gateway.registry.server import RegistryServer
        from headrace.gateway.registry.settings import RegistrySettings
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the registry needs {error.name}: pip install 'headrace[registry]'"
        ) from error
    configure_logging(log_level, log_format)
    with connect(brokers, setting) as pool:
        client = pool.settings
    server = RegistryServer(
        RegistrySettings(
            client=client,
            listen=parse_listen_address(listen, "--listen"),
            advertise=None if advertise is None else parse_listen_address(advertise, "--advertise"),
            topic=topic,
            waits_for_topic=wait_for_topic,
            group=group,
            eligible=eligible,
            session_timeout_ms=session_timeout_ms,
            users=users,
            peers=tuple(peer or ()),
            certificate=tls_certificate,
            certificate_key=tls_key,
            certificate_authority=tls_authority,
        )
    )
    with until_signal():
        server.run(lambda: print(f"The schema registry is at {server.url}", flush=True))
    print("Stopped.")


@user_app.command("add", epilog=epilog(_USER_EXAMPLES))
def add(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    users: Annotated[Path, typer.Option(metavar="FILE", help="The file of users.")],
    read: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Subjects that may be read; repeatable."),
    ] = None,
    write: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Subjects that may be read and written; repeatable."),
    ] = None,
) -> None:
    """Add a user, or give one a new secret and new rights. Running registries read the file again.

    Name what the user may do with --read or --write. A prefix such as orders- or 'orders-*' covers
    the subjects that begin so, '*' all of them, and :.europe: those of a context. To take a user
    away, remove its line from the file."""
    from headrace.gateway.registry.access.subject_users import SUBJECT_USERS

    add_gateway_user(
        users,
        SUBJECT_USERS,
        name,
        {"read": read, "write": write},
        hint="name subjects with --read or --write; --write '*' allows everything",
    )
