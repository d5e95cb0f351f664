"""`headrace rest`: Confluent's REST API on a Kafka cluster."""

import gc
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.gateway_user import add_gateway_user
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.log_choice import configure_logging
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.registry_option import REGISTRY_VARIABLE, optional_registry
from headrace.cli.terminal.until_signal import until_signal
from headrace.model.error import ConfigError

app = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)
user_app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(user_app, name="user", help="Manage who may read and write topics.")

_EXAMPLES = """
Examples:

  headrace rest                                     on 127.0.0.1:8082, for the cluster at :9092

  headrace rest --listen 127.0.0.1:8082 -b kafka-1:9092

  headrace rest --listen 10.0.0.7:8082 --advertise http://rest-1:8082      one of several proxies

  headrace rest --registry http://127.0.0.1:8081    also Avro, JSON Schema and Protobuf

  curl -s localhost:8082/v3/clusters | jq -r '.data[0].cluster_id'

  curl -s localhost:8082/topics/clicks -H 'Content-Type: application/vnd.kafka.json.v2+json' -d '{"records": [{"value": {"page": "/"}}]}'

  headrace rest user add ann --users users.txt --read orders- --group ann-      prints the secret

  headrace rest --users users.txt                   only they may use it, within their rights

Without --users, who reaches the address may do what the proxy's own user may. docs/rest.md lists
what works.
"""  # noqa: E501, an example is one line

_USER_EXAMPLES = """
Examples:

  headrace rest user add ann --users users.txt --read 'orders-*' --group 'ann-*'

  headrace rest user add shop --users users.txt --write orders-eu          writes, reads no record

  headrace rest user add admin --users users.txt --admin '*'               may do everything
"""


@app.callback(epilog=epilog(_EXAMPLES))
def rest(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve the API.")
    ] = "127.0.0.1:8082",
    advertise: Annotated[
        str | None,
        typer.Option(metavar="URL", help="What links and consumer instances name; else --listen."),
    ] = None,
    instance_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=1, help="Remove consumer instances that are unused for so long."
        ),
    ] = 300.0,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="URL,...",
            help=f"The schema registry, for formats with schemas; else ${REGISTRY_VARIABLE}.",
        ),
    ] = None,
    users: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may log in; else everyone may.")
    ] = None,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
) -> None:
    """Serve the REST API, v2 and v3, until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    try:
        from headrace.gateway.rest.server import RestServer
        from headrace.gateway.rest.settings import RestSettings
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the REST proxy needs {error.name}: pip install 'headrace[rest]'"
        ) from error
    configure_logging(log_level, log_format)
    if advertise is not None and not advertise.startswith(("http://", "https://")):
        raise ConfigError(f"--advertise is {advertise!r}: write a URL such as http://rest-1:8082")
    pairs, schema_settings = optional_registry(registry, setting)
    with connect(brokers, pairs) as pool:
        client = pool.settings
    server = RestServer(
        RestSettings(
            client=client,
            listen=parse_listen_address(listen, "--listen"),
            advertise=advertise,
            instance_timeout_seconds=instance_timeout,
            registry=schema_settings,
            users=users,
        )
    )

    def ready() -> None:
        # Modules stay: the garbage collector, which stops all threads, need not scan them again.
        gc.collect()
        gc.freeze()
        print(f"The REST API is at {server.url}", flush=True)

    with until_signal():
        server.run(ready)
    print("Stopped.")


@user_app.command("add", epilog=epilog(_USER_EXAMPLES))
def add(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    users: Annotated[Path, typer.Option(metavar="FILE", help="The file of users.")],
    read: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Topics whose records may be read; repeatable."),
    ] = None,
    write: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Topics to which may be written; repeatable."),
    ] = None,
    admin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX",
            help="Topics and groups with which everything may be done; repeatable.",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Consumer groups that may be used; repeatable."),
    ] = None,
) -> None:
    """Add a user, or give one a new secret and new rights. Running proxies read the file again.

    A prefix such as orders- or 'orders-*' covers the topics, or groups, that begin so, '*' all of
    them. --admin '*' also administers the cluster: brokers' configurations and ACLs. To take a user
    away, remove its line from the file."""
    from headrace.gateway.rest.access.topic_users import TOPIC_USERS

    add_gateway_user(
        users,
        TOPIC_USERS,
        name,
        {"read": read, "write": write, "admin": admin, "group": group},
        hint="name topics with --read, --write or --admin; --admin '*' allows everything",
    )
