"""What `headrace up` does: start a broker, and stop it when a signal comes."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from headrace.cli.broker.up_options import UpOptions
from headrace.cli.supervisor.side_service import SideService, side_services
from headrace.cli.supervisor.supervised_child import SupervisedChild
from headrace.cli.supervisor.supervisor_lock import refuse_supervised
from headrace.cli.terminal.log_choice import configure_logging
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

_log = structlog.get_logger(__name__)
_SWITCH_SECONDS = 0.0005
_WATCH_SECONDS = 0.5


def run_up(options: UpOptions) -> int:
    """Serve until a signal comes, and return the exit code.

    Raises:
        ConfigError: an option or a setting is wrong.
        HeadraceError: the broker cannot start.
    """
    configure_logging(options.log_level, options.log_format)
    texts = {} if options.config is None else property_values(options.config)
    texts.update(parse_pairs(list(options.settings), "-X"))
    given = {
        "listeners": options.listen,
        "advertised.listeners": options.advertise,
        "log.dirs": None if options.data is None else str(options.data),
        "zookeeper.connect": options.zookeeper,
        "node.id": None if options.broker_id is None else str(options.broker_id),
    }
    texts.update({key: value for key, value in given.items() if value is not None})
    services = side_services(options.beside, texts)
    if options.brokers != "1":
        from headrace.cli.supervisor.cluster_supervisor import supervise

        if options.broker_id is not None and "zookeeper.connect" not in texts:
            raise ConfigError(
                "--brokers starts a cluster of its own on this machine, with ids from 1 on: leave "
                "out --broker-id, or name the ZooKeeper of the cluster to join with --zookeeper"
            )
        count = _broker_count(options.brokers, texts)
        if count.supervised:
            return supervise(
                count.brokers,
                texts,
                services,
                log_level=options.log_level,
                log_format=options.log_format,
            )
    if "zookeeper.connect" in texts:
        rack = machine_name()
        if rack is not None:  # brokers of one machine go down together: replicas are spread
            texts.setdefault("broker.rack", rack)
    log_options = ["--log-level", options.log_level, "--log-format", options.log_format]
    _import_broker()
    from headrace.broker.network.event_loop import BrokerEventLoop

    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
        runner.run(_run(texts, services, log_options))
    return 0


def _import_broker() -> None:
    """Import what a broker needs, without the garbage collector: modules and classes stay, and it
    would look at all of them again and again. They are not looked at later either."""
    gc.disable()
    try:
        import headrace.broker.server  # noqa: F401

        gc.freeze()
    finally:
        gc.enable()


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
