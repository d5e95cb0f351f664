"""A console of a broker with something in it, and a browser to look at it."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.console.message.mask import Masks
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.testing.readiness import wait_until
from testkit.peer.browser import chromium
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient
from testkit.process.registry_process import RegistryProcess

StartConsole = Callable[..., ConsoleServer]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that need a live flow last: it starts while the others run."""
    items.sort(key=lambda each: "live_flow" in each.name)


def ready(server: ConsoleServer) -> bool:
    return server.state.cluster_poller.problem is None


@pytest.fixture
def start_console(broker: BrokerProcess) -> Iterator[StartConsole]:
    """Start consoles of the shared broker, with settings of the test's own."""
    with ExitStack() as running:

        def start(**settings_of_test: Any) -> ConsoleServer:
            settings = ConsoleSettings(
                ClientSettings.of({"bootstrap.servers": broker.address}),
                listen=Address("127.0.0.1", 0),
                interval_seconds=0.3,
                **settings_of_test,
            )
            server = running.enter_context(ConsoleServer(settings))
            wait_until(lambda: ready(server), what="the first snapshot", timeout_seconds=120)
            return server

        yield start


@pytest.fixture(scope="module")
def console(broker: BrokerProcess) -> Iterator[ConsoleServer]:
    """One console for a file of tests, without login."""
    settings = ConsoleSettings(
        ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        interval_seconds=0.3,
    )
    with ConsoleServer(settings) as server:
        wait_until(lambda: ready(server), what="the first snapshot", timeout_seconds=120)
        yield server


@pytest.fixture(scope="module")
def registry(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RegistryClient]:
    """A schema registry of the shared broker, with a topic of its own."""
    options = ("--topic", f"_schemas-{uuid.uuid4().hex[:8]}", "--group", uuid.uuid4().hex)
    folder = tmp_path_factory.mktemp("registry")
    with RegistryProcess(folder, broker.address, *options) as process:
        settings = RegistryClientSettings.of({"schema.registry.url": process.url})
        with RegistryClient(settings) as client:
            yield client


@pytest.fixture(scope="module")
def schema_console(broker: BrokerProcess, registry: RegistryClient) -> Iterator[ConsoleServer]:
    """A console with a registry, which hides `secret`."""
    settings = ConsoleSettings(
        ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        interval_seconds=0.3,
        masks=Masks(["hidden-*:secret"]),
        registry=registry.settings,
    )
    with ConsoleServer(settings) as server:
        wait_until(lambda: ready(server), what="the first snapshot", timeout_seconds=120)
        yield server


@pytest.fixture
def client(console: ConsoleServer) -> ConsoleClient:
    return ConsoleClient(console.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for a file of tests and not longer: while Playwright runs, this thread has an event
    loop, and tests that start their own would fail."""
    try:
        with chromium() as started:
            yield started
    except PeerMissing as missing:
        require_peer(str(missing))
