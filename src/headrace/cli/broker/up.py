"""`headrace up`: its options and its help. `up_run` starts the broker.

A command line that is written plainly does not come here: `up_options` reads it.
"""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.broker.up_options import UpOptions
from headrace.cli.broker.up_run import run_up
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace up                                    one broker on 127.0.0.1:9092, data in ./data

  headrace up --listen 127.0.0.1:9192 --data /var/lib/headrace

  headrace up -X num.partitions=6 -X log.retention.ms=3600000

  headrace up --config server.properties         a file with Kafka's keys

  headrace up --with kinesis,console             also the Kinesis API on :4567, the console on :8080

  headrace up --with kinesis -X kinesis.listeners=127.0.0.1:4568

  headrace up --with registry                    also a schema registry on :8081

  headrace up --with rest                        also Confluent's REST API on :8082

  headrace up --brokers 3                        a cluster on this machine, with its ZooKeeper

  headrace up --brokers auto --with console      as many brokers as suit the cores, one console

  headrace up --zookeeper zk1:2181 --broker-id 2 --listen 0.0.0.0:9092 --advertise node2:9092   one broker of a cluster on several machines

  headrace up --brokers auto --zookeeper zk1:2181 --broker-id 20 --listen 0.0.0.0:9092 --advertise node2:9092   several brokers of this machine join it: ids 20, 21, ..., ports 9092, 9093, ...
"""  # noqa: E501, an example and what it does are one line


@command.command(epilog=epilog(_EXAMPLES))
def up(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The data directory; created if missing.")
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The address that clients connect to."),
    ] = None,
    brokers: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="Start a cluster of N brokers, and a ZooKeeper; auto: as many as suit the cores.",
        ),
    ] = "1",
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,...", help="Join the cluster of this ZooKeeper."),
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="This broker's id; with --brokers the first one's."),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME,...",
            help="Also serve: kinesis, registry, rest, console; repeatable.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A properties file with Kafka's keys.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("-X", metavar="KEY=VALUE", help="Set one key; overrides the file."),
    ] = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
) -> None:
    """Start a broker. Ctrl-C or SIGTERM stops it cleanly."""
    options = UpOptions(
        listen=listen,
        data=data,
        advertise=advertise,
        brokers=brokers,
        zookeeper=zookeeper,
        broker_id=broker_id,
        beside=tuple(beside or ()),
        config=config,
        settings=tuple(setting or ()),
        log_level=log_level,
        log_format=log_format,
    )
    raise typer.Exit(run_up(options))
