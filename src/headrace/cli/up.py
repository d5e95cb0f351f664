"""`headrace up`: start a broker and keep it running until a signal comes."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from headrace.cli.terminal.epilog import epilog
from headrace.model.error import ConfigError
from headrace.model.kafka_key import split_meaningless
from headrace.telemetry.logging import LEVELS, configure

if TYPE_CHECKING:
    from headrace.broker.config.settings import BrokerSettings
    from headrace.cluster.store import ClusterStore

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_SWITCH_SECONDS = 0.0005

_EXAMPLES = """
Examples:

  headrace up                                    one broker on 127.0.0.1:9092, data in ./data

  headrace up --listen 127.0.0.1:9192 --data /var/lib/headrace

  headrace up -X num.partitions=6 -X log.retention.ms=3600000

  headrace up --config server.properties         Kafka's own file and key names

  headrace up --brokers 3                        a cluster on this machine, with its ZooKeeper

  headrace up --zookeeper zk1:2181,zk2:2181,zk3:2181 --broker-id 2 --listen 0.0.0.0:9092 \
      --advertise node2:9092                     one broker of a cluster on several machines
"""


@command.command(epilog=epilog(_EXAMPLES))
def up(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the data lies; made if missing.")
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="What clients are told to connect to."),
    ] = None,
    brokers: Annotated[
        int, typer.Option(metavar="N", min=1, help="Start so many brokers, and a ZooKeeper.")
    ] = 1,
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,...", help="Join the cluster that meets there."),
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="This broker's number in the cluster.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A properties file with Kafka's keys.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("-X", metavar="KEY=VALUE", help="Set one key; goes before the file."),
    ] = None,
    log_level: Annotated[str, typer.Option(help=", ".join(LEVELS) + ".")] = "info",
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Start a broker. Ctrl-C or SIGTERM stops it cleanly."""
    if log_level not in LEVELS:
        raise ConfigError(f"--log-level cannot be {log_level!r}: write {', '.join(LEVELS)}")
    if log_format not in ("text", "json"):
        raise ConfigError(f"--log-format cannot be {log_format!r}: write text or json")
    configure(log_level, "json" if log_format == "json" else "text")
    texts = {} if config is None else read_properties(config)
    texts.update(_settings(setting or []))
    told = {
        "listeners": listen,
        "advertised.listeners": advertise,
        "log.dirs": None if data is None else str(data),
        "zookeeper.connect": zookeeper,
        "node.id": None if broker_id is None else str(broker_id),
    }
    texts.update({key: value for key, value in told.items() if value is not None})
    if brokers > 1:
        from headrace.cli.cluster_supervisor import supervise

        if zookeeper is not None or broker_id is not None or advertise is not None:
            raise ConfigError(
                "--brokers starts a cluster of its own on this machine: leave out --zookeeper, "
                "--broker-id and --advertise"
            )
        raise typer.Exit(supervise(brokers, texts, log_level=log_level, log_format=log_format))
    asyncio.run(_run(texts))


async def _run(texts: dict[str, str]) -> None:
    from headrace.broker.config.settings import BrokerSettings
    from headrace.broker.server import Server

    meaningful, left = split_meaningless(texts)
    for key, reason in left.items():
        structlog.get_logger(__name__).warning("a key has no effect", key=key, reason=reason)
    settings = BrokerSettings(meaningful)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, _stop, stopping, each)
    # A thread that flushes or compacts hands the interpreter over after this long at most: with
    # the usual 5 ms that would be the longest thing that happens to a request.
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = await Server.start(
        settings, open_store=_store(settings["zookeeper.connect"], settings)
    )
    # What is there now stays: the collector, which holds up everybody, need not look at it again.
    gc.freeze()
    addresses = ", ".join(listener.address for listener in server.listeners)
    print(f"Headrace listens on {addresses}", flush=True)
    print(f"Data in {', '.join(str(path.resolve()) for path in settings.log_dirs)}", flush=True)
    if server.admin_port is not None and settings.admin_address is not None:
        host = settings.admin_address[0]
        print(f"Health and metrics on http://{host}:{server.admin_port}/metrics", flush=True)
    await stopping.wait()
    print("Stopping ...", flush=True)
    await server.stop()
    print("Stopped.", flush=True)


def _store(servers: str | None, settings: "BrokerSettings") -> "Callable[[], ClusterStore] | None":
    """How to reach the store this broker shares with others; None when it is alone."""
    if servers is None:
        return None
    try:
        from headrace.cluster.zookeeper_store import ZooKeeperStore
    except ImportError as error:
        raise ConfigError(
            "a cluster needs kazoo to speak to ZooKeeper: pip install 'headrace[spark]'"
        ) from error
    session_ms = int(settings["zookeeper.session.timeout.ms"])
    return lambda: ZooKeeperStore.open(servers, session_ms=session_ms)


def _stop(stopping: asyncio.Event, number: int) -> None:
    """The first signal stops cleanly; who sends another does not want to wait for that."""
    if stopping.is_set():
        print("Stopped at once: the next start checks the logs.", flush=True)
        os._exit(128 + number)
    stopping.set()


def _settings(pairs: list[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"-X {pair} has no value: write it as -X key=value")
        texts[key.strip()] = value.strip()
    return texts


def read_properties(path: Path) -> dict[str, str]:
    """The keys and values of a Java properties file: `key=value` lines, `#` and `!` comments."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise ConfigError(f"{path}, line {number}: {line!r} has no '='")
        found[key.strip()] = value.strip()
    return found
