"""Large answers that are read slowly stay within bounds, and small ones do not wait for them."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.settings import ClientSettings
from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.registry import app as app_module
from headrace.gateway.registry.app import RegistryApp
from headrace.gateway.registry.operation import table
from headrace.gateway.registry.settings import RegistrySettings
from testkit.sample.memory_registry import MemoryRegistry

LARGE = "x" * 100_000


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryApp]:
    monkeypatch.setattr(app_module, "_ANSWERS_BYTES", 250_000)
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    app = RegistryApp(RegistrySettings(client=client), 8081)
    registry: Any = MemoryRegistry()
    registry.register("a", f'{{"type":"string","doc":"{LARGE}"}}')
    app.service = registry
    yield app
    app.close()


class Client:
    """Reads of an answer only the head until it is `free`."""

    def __init__(self, app: RegistryApp, path: str) -> None:
        self.started = asyncio.Event()
        self.free = asyncio.Event()
        self.size = 0
        self.done = asyncio.ensure_future(app(scope(path), self.receive, self.send))

    async def receive(self) -> Any:
        return {"type": "http.request", "body": b""}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            self.started.set()
        else:
            await self.free.wait()
            self.size += len(message["body"])


def scope(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }


@pytest.mark.parametrize("path", ["/schemas/ids/1", "/schemas"])
def test_large_answers_wait_until_others_are_read(app: RegistryApp, path: str) -> None:
    async def run() -> None:
        clients = [Client(app, path) for _ in range(5)]
        async with asyncio.timeout(60):
            while sum(each.started.is_set() for each in clients) < 2:
                await asyncio.sleep(0.001)
        small = Client(app, "/subjects")
        small.free.set()
        await asyncio.wait_for(small.done, 60)
        assert sum(each.started.is_set() for each in clients) == 2
        for each in clients:
            each.free.set()
        await asyncio.wait_for(asyncio.gather(*(each.done for each in clients)), 60)
        assert {each.size for each in clients} == {clients[0].size}
        assert clients[0].size > len(LARGE)

    asyncio.run(run())


def test_an_answer_above_the_budget_is_sent_alone(
    app: RegistryApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "_ANSWERS_BYTES", 70_000)
    app._answers = ByteBudget(70_000)

    async def run() -> None:
        first = Client(app, "/schemas")
        await asyncio.wait_for(first.started.wait(), 60)
        second = Client(app, "/schemas")
        first.free.set()
        second.free.set()
        await asyncio.wait_for(asyncio.gather(first.done, second.done), 60)
        assert first.size == second.size > len(LARGE)

    asyncio.run(run())


def test_two_lists_of_schemas_are_made_at_once(app: RegistryApp) -> None:
    free = threading.Event()
    lock = threading.Lock()
    inside = 0
    most = 0
    (route,) = (each for each in table.ROUTES if each.lists_schemas)

    def serve(*arguments: Any) -> Any:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        try:
            assert free.wait(60)
            return route_serve(*arguments)
        finally:
            with lock:
                inside -= 1

    route_serve = route.serve
    object.__setattr__(route, "serve", serve)
    try:

        async def run() -> None:
            clients = [Client(app, "/schemas") for _ in range(6)]
            for each in clients:
                each.free.set()
            small = Client(app, "/subjects")
            small.free.set()
            await asyncio.wait_for(small.done, 60)
            free.set()
            await asyncio.wait_for(asyncio.gather(*(each.done for each in clients)), 60)

        asyncio.run(run())
    finally:
        object.__setattr__(route, "serve", route_serve)
    assert most <= 2
