"""`headrace kinesis`: the Kinesis API on a Kafka cluster."""

import gc
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.kinesis.channel import app as channel_app
from headrace.cli.kinesis.consume import EXAMPLES as CONSUME_EXAMPLES
from headrace.cli.kinesis.consume import consume
from headrace.cli.kinesis.plan import EXAMPLES as PLAN_EXAMPLES
from headrace.cli.kinesis.plan import plan
from headrace.cli.kinesis.stream import app as stream_app
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.log_choice import configure_logging
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.until_signal import until_signal
from headrace.model.error import ConfigError

app = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)
key_app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(key_app, name="key", help="Manage access keys.")
encryption_app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(encryption_app, name="encryption-key", help="Manage keys for records at rest.")
app.add_typer(stream_app, name="stream", help="List, describe, split and merge streams.")
app.add_typer(channel_app, name="channel", help="List and describe channels.")
app.command("consume", epilog=CONSUME_EXAMPLES)(consume)
app.command("plan", epilog=PLAN_EXAMPLES)(plan)

_SWITCH_SECONDS = 0.0005

_EXAMPLES = """
Examples:

  headrace kinesis                                  on 127.0.0.1:4567, for the cluster at :9092

  headrace kinesis --listen 127.0.0.1:4567 -b kafka-1:9092

  headrace kinesis key add AKIDCLICKS --keys keys.txt          prints the secret

  headrace kinesis key add AKIDBOB --keys keys.txt --principal arn:aws:iam::111122223333:user/bob

  headrace kinesis --keys keys.txt --listen 0.0.0.0:4567

  headrace kinesis encryption-key add alias/clicks --encryption-keys master.txt

  headrace kinesis --encryption-keys master.txt     for StartStreamEncryption with alias/clicks

  headrace kinesis --channels-to lake               CreateChannel writes Parquet below lake/BUCKET

  headrace kinesis --expose 'clicks*'               show plain topics as streams

  AWS_ENDPOINT_URL_KINESIS=http://127.0.0.1:4567 python program.py       any program with boto3

Without --keys every signature is accepted. docs/kinesis.md lists what works.
"""


@app.callback(epilog=epilog(_EXAMPLES))
def kinesis(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve the API.")
    ] = "127.0.0.1:4567",
    keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Access keys; else any signature passes.")
    ] = None,
    encryption_keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Master keys; else streams cannot be encrypted."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve TLS with this PEM certificate.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its key, unless it is in the same file.")
    ] = None,
    expose: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Show these plain topics as streams; repeatable."),
    ] = None,
    account: Annotated[str, typer.Option(help="The account id in ARNs.")] = "000000000000",
    region: Annotated[str, typer.Option(help="The region in ARNs.")] = "us-east-1",
    limits: Annotated[
        bool,
        typer.Option("--limits/--no-limits", help="Apply the service's limits per shard and day."),
    ] = True,
    most_shards: Annotated[
        int,
        typer.Option(
            "--on-demand-shards",
            metavar="N",
            min=4,
            max=1000,
            help="The most of an on-demand stream.",
        ),
    ] = 200,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve shard-level metrics to Prometheus here."),
    ] = None,
    channels_to: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Where channels write their files; a path or a URI such as s3://"
        ),
    ] = None,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
) -> None:
    """Serve the Kinesis API until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    try:
        from headrace.gateway.kinesis.access.access_keys import read_access_keys
        from headrace.gateway.kinesis.encryption.key_file import read_master_keys
        from headrace.gateway.kinesis.identity.account import Account
        from headrace.gateway.kinesis.limit.demand import ScalingRule
        from headrace.gateway.kinesis.server import KinesisServer
        from headrace.gateway.kinesis.settings import KinesisSettings
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the gateway needs {error.name}: pip install 'headrace[kinesis]'"
        ) from error
    if not re.fullmatch(r"\d{12}", account, re.ASCII):
        raise ConfigError(f"--account is {account!r}: it has twelve digits")
    if not re.fullmatch(r"[a-z0-9-]{1,32}", region):
        raise ConfigError(f"--region is {region!r}: write one such as us-east-1")
    configure_logging(log_level, log_format)
    with connect(brokers, setting) as pool:
        client = pool.settings
    known = {} if keys is None else read_access_keys(keys)
    server = KinesisServer(
        KinesisSettings(
            client=client,
            listen=parse_listen_address(listen, "--listen"),
            account=Account(account, region),
            keys={name: each.secret for name, each in known.items()},
            principals={name: each.principal for name, each in known.items() if each.principal},
            key_file=keys,
            master_keys={} if encryption_keys is None else read_master_keys(encryption_keys),
            expose=tuple(expose or ()),
            limits=limits,
            scaling=ScalingRule(most_shards=most_shards),
            metrics=None if metrics is None else parse_listen_address(metrics, "--metrics"),
            channels_to=channels_to,
            certificate=tls_certificate,
            certificate_key=tls_key,
        )
    )
    # A large request in one thread delays the others by this much at most, and not by Python's
    # default of 5 ms each time that a small one goes from thread to thread.
    sys.setswitchinterval(_SWITCH_SECONDS)

    def ready() -> None:
        # These objects stay: the garbage collector, which stops all threads, need not scan them.
        gc.freeze()
        print(f"The Kinesis API is at {server.url}", flush=True)

    with until_signal():
        server.run(ready)
    print("Stopped.")


@key_app.command("add")
def add_key(
    name: Annotated[str, typer.Argument(metavar="ACCESS-KEY-ID")],
    keys: Annotated[Path, typer.Option(metavar="FILE", help="The file of access keys.")],
    principal: Annotated[
        str,
        typer.Option(metavar="ARN", help="A user of another account; resource policies name it."),
    ] = "",
) -> None:
    """Add an access key, or give it a new secret. Running gateways read the file when it changes.

    To take a key away, remove its line from the file."""
    from headrace.gateway.kinesis.access.access_keys import add_access_key

    secret = add_access_key(keys, name, principal)
    print(f"AWS_ACCESS_KEY_ID={name}")
    print(f"AWS_SECRET_ACCESS_KEY={secret}")


@encryption_app.command("add")
def add_encryption_key(
    name: Annotated[str, typer.Argument(metavar="KEY-ID")],
    encryption_keys: Annotated[Path, typer.Option(metavar="FILE", help="The file of keys.")],
) -> None:
    """Add a master key such as alias/clicks. Who loses the file loses all encrypted records."""
    from headrace.gateway.kinesis.encryption.key_file import add_master_key

    add_master_key(encryption_keys, name)
    print(f"{name} is in {encryption_keys}: give this file to every gateway, and keep a copy.")
