"""`headrace rest`: Confluent's REST API on a Kafka cluster."""

from typing import Annotated

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption, configure_logging
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.registry_settings import split_registry
from headrace.cli.terminal.until_signal import until_signal
from headrace.model.error import ConfigError

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace rest                                     on 127.0.0.1:8082, for the cluster at :9092

  headrace rest --listen 127.0.0.1:8082 -b kafka-1:9092

  headrace rest --listen 10.0.0.7:8082 --advertise http://rest-1:8082      one of several proxies

  headrace rest --registry http://127.0.0.1:8081    also Avro, JSON Schema and Protobuf

  curl -s localhost:8082/v3/clusters | jq -r '.data[0].cluster_id'

  curl -s localhost:8082/topics/clicks -H 'Content-Type: application/vnd.kafka.json.v2+json' -d '{"records": [{"value": {"page": "/"}}]}'

There is no login yet: who reaches the address may do what the proxy's own user may. docs/rest.md
lists what works.
"""  # noqa: E501, an example is one line


@command.command(epilog=epilog(_EXAMPLES))
def rest(
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
        typer.Option(metavar="URL", help="The schema registry, for formats with schemas."),
    ] = None,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
) -> None:
    """Serve the REST API, v2 and v3, until Ctrl-C."""
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
    pairs, schema_settings = split_registry(setting, registry)
    with connect(brokers, pairs) as pool:
        client = pool.settings
    server = RestServer(
        RestSettings(
            client=client,
            listen=parse_listen_address(listen, "--listen"),
            advertise=advertise,
            instance_timeout_seconds=instance_timeout,
            registry=schema_settings,
        )
    )
    with until_signal():
        server.run(lambda: print(f"The REST API is at {server.url}", flush=True))
    print("Stopped.")
