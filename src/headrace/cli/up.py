"""`headrace up`: start a broker, and stop it when a signal comes."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from headrace.cli.supervisor.side_service import SideService, side_services
from headrace.cli.supervisor.supervised_child import SupervisedChild
from headrace.cli.supervisor.supervisor_lock import refuse_supervised
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption, configure_logging
from headrace.cli.terminal.pair import parse_pairs
from headrace.config.properties import property_values
from headrace.model.error import ConfigError
from headrace.process.machine import machine_name, usable_cores

if TYPE_CHECKING:
    from headrace.broker.config.listener import Listener
    from headrace.broker.config.settings import BrokerSettings
    from headrace.cli.supervisor.broker_count import BrokerCount
    from headrace.cluster.store import ClusterStore
    from headrace.serde.registry_schema_lookup import RegistrySchemaLookup

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_log = structlog.get_logger(__name__)
_SWITCH_SECONDS = 0.0005
_WATCH_SECONDS = 0.5

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
    configure_logging(log_level, log_format)
    texts = {} if config is None else property_values(config)
    texts.update(parse_pairs(setting, "-X"))
    options = {
        "listeners": listen,
        "advertised.listeners": advertise,
        "log.dirs": None if data is None else str(data),
        "zookeeper.connect": zookeeper,
        "node.id": None if broker_id is None else str(broker_id),
    }
    texts.update({key: value for key, value in options.items() if value is not None})
    services = side_services(beside, texts)
    if brokers != "1":
        from headrace.cli.supervisor.cluster_supervisor import supervise

        if broker_id is not None and "zookeeper.connect" not in texts:
            raise ConfigError(
                "--brokers starts a cluster of its own on this machine, with ids from 1 on: leave "
                "out --broker-id, or name the ZooKeeper of the cluster to join with --zookeeper"
            )
        count = _broker_count(brokers, texts)
        if count.supervised:
            raise typer.Exit(
                supervise(
                    count.brokers, texts, services, log_level=log_level, log_format=log_format
                )
            )
    if "zookeeper.connect" in texts:
        rack = machine_name()
        if rack is not None:  # brokers of one machine go down together: replicas are spread
            texts.setdefault("broker.rack", rack)
    log_options = ["--log-level", log_level, "--log-format", log_format]
    from headrace.broker.network.event_loop import BrokerEventLoop

    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
        runner.run(_run(texts, services, log_options))


def _broker_count(text: str, texts: dict[str, str]) -> "BrokerCount":
    from headrace.cli.supervisor.broker_count import AUTO, choose_broker_count
    from headrace.cli.supervisor.broker_plan import data_directory, first_broker_id

    count = choose_broker_count(
        text,
        data_directory(texts),
        first_id=first_broker_id(texts),
        cores=usable_cores(),
        joined="zookeeper.connect" in texts,
    )
    if count.reason is not None:
        print(f"--brokers {AUTO}: {count.reason}", flush=True)
    return count


async def _run(
    texts: dict[str, str], services: Sequence[SideService], log_options: list[str]
) -> None:
    from headrace.broker.config.settings import BrokerSettings
    from headrace.broker.server import Server
    from headrace.model.broker_config import ignored_keys

    for key, reason in ignored_keys(texts).items():
        _log.warning("config_key_ignored", key=key, reason=reason)
    settings = BrokerSettings(texts)
    for directory in settings.log_dirs:
        refuse_supervised(directory)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, _stop, stopping, each)
    # A thread that flushes or compacts gives up the interpreter after this long at most. Python's
    # default of 5 ms would be the longest delay of a request.
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = await Server.start(
        settings,
        open_store=_store(settings["zookeeper.connect"], settings),
        schema_lookup=_schema_lookup(settings),
    )
    # These objects stay: the garbage collector, which stops all threads, need not scan them again.
    gc.freeze()
    addresses = ", ".join(listener.address for listener in server.listeners)
    print(f"Headrace listens on {addresses}", flush=True)
    print(f"Data in {', '.join(str(path.resolve()) for path in settings.log_dirs)}", flush=True)
    if server.admin_port is not None and settings.admin_address is not None:
        host = settings.admin_address[0]
        print(f"Health and metrics on http://{host}:{server.admin_port}/metrics", flush=True)
    children = [each.child(_local_address(server.listeners), log_options) for each in services]
    for child in children:
        child.start()
    try:
        await _watch(children, stopping)
        print("Stopping ...", flush=True)
        for child in children:  # before the broker: they finish what they have begun
            await asyncio.to_thread(child.stop)
    finally:
        for child in children:
            child.kill()
    await server.stop()
    print("Stopped.", flush=True)


async def _watch(children: Sequence[SupervisedChild], stopping: asyncio.Event) -> None:
    """Wait for the signal to stop, and start services again that end before it."""
    while children and not stopping.is_set():
        # In this thread: it stays, and a child lives no longer than the thread that started it.
        for child in children:
            child.restart_if_ended()
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _WATCH_SECONDS)
    await stopping.wait()


def _local_address(listeners: "Sequence[Listener]") -> str:
    """Return where a service on this machine connects: a listener without login if there is one."""
    easiest = min(listeners, key=lambda each: (each.authenticates, each.encrypted))
    return f"127.0.0.1:{easiest.port}" if easiest.wildcard else easiest.address


def _store(servers: str | None, settings: "BrokerSettings") -> "Callable[[], ClusterStore] | None":
    """Return how to open the store that the brokers of a cluster share; None for a single
    broker."""
    if servers is None:
        return None
    try:
        from headrace.cluster.zookeeper.zookeeper_store import ZooKeeperStore
    except ImportError as error:
        raise ConfigError(
            "a cluster needs kazoo to speak to ZooKeeper: pip install 'headrace[spark]'"
        ) from error
    from headrace.broker.auth.zookeeper_settings import zookeeper_access

    session_ms = int(settings["zookeeper.session.timeout.ms"])
    access = zookeeper_access(settings)
    return lambda: ZooKeeperStore.open(servers, session_ms=session_ms, access=access)


def _schema_lookup(settings: "BrokerSettings") -> "RegistrySchemaLookup | None":
    """Return the schema registry of the settings; None without one."""
    if settings["confluent.schema.registry.url"] is None:
        return None
    from headrace.serde.registry_schema_lookup import RegistrySchemaLookup

    return RegistrySchemaLookup.of(settings)


def _stop(stopping: asyncio.Event, number: int) -> None:
    """Stop cleanly on the first signal, and at once on the second."""
    if stopping.is_set():
        print("Stopped at once: the next start checks the logs.", flush=True)
        os._exit(128 + number)
    stopping.set()
