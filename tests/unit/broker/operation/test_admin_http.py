"""The small HTTP server beside the broker."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.broker.operation.admin_http import AdminHttp


class State:
    def __init__(self) -> None:
        self.ready = True
        self.problems: list[str] = []
        self.metrics = b"headrace_topics 1.0\n"
        self.port = 0
        self.unread: asyncio.StreamWriter | None = None

    async def page(self) -> bytes:
        if not self.metrics:
            raise RuntimeError("no metrics")
        return self.metrics

    async def client_page(self) -> bytes:
        return b"pushed 1.0\n"

    async def exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.transport.abort()

    async def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        answer = await self.exchange(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head, _, content = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), content


def run(scenario: Callable[[State], Awaitable[None]]) -> None:
    async def main() -> None:
        state = State()
        server = AdminHttp(
            ready=lambda: state.ready,
            problems=lambda: state.problems,
            metrics=state.page,
            client_metrics=state.client_page,
        )
        state.port = await server.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(60):
                await scenario(state)
        finally:
            await server.stop()
            if state.unread is not None:
                state.unread.transport.abort()

    asyncio.run(main())


def test_a_healthy_broker_says_so() -> None:
    async def scenario(state: State) -> None:
        assert await state.get("/healthz") == (200, b"ok\n")

    run(scenario)


def test_problems_are_listed() -> None:
    async def scenario(state: State) -> None:
        state.problems = ["log directory a is offline", "log directory b is offline"]
        assert await state.get("/healthz") == (503, "\n".join([*state.problems, ""]).encode())

    run(scenario)


def test_a_broker_that_starts_or_stops_is_not_ready() -> None:
    async def scenario(state: State) -> None:
        assert (await state.get("/readyz"))[0] == 200
        state.ready = False
        assert (await state.get("/readyz"))[0] == 503

    run(scenario)


def test_metrics_are_served_with_a_query_behind_the_path() -> None:
    async def scenario(state: State) -> None:
        assert await state.get("/metrics?name=x") == (200, state.metrics)

    run(scenario)


def test_what_clients_have_pushed_is_a_page_of_its_own() -> None:
    async def scenario(state: State) -> None:
        assert await state.get("/client-metrics") == (200, b"pushed 1.0\n")

    run(scenario)


def test_a_head_has_no_content() -> None:
    async def scenario(state: State) -> None:
        assert await state.get("/healthz", "HEAD") == (200, b"")

    run(scenario)


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/", "GET", 404), ("/healthz", "POST", 405)]
)
def test_anything_else_is_refused(path: str, method: str, status: int) -> None:
    async def scenario(state: State) -> None:
        assert (await state.get(path, method))[0] == status

    run(scenario)


def test_a_page_that_fails_is_an_error_of_the_server() -> None:
    async def scenario(state: State) -> None:
        state.metrics = b""
        assert (await state.get("/metrics"))[0] == 500
        assert (await state.get("/healthz"))[0] == 200

    run(scenario)


def test_a_head_without_an_end_is_cut_off() -> None:
    async def scenario(state: State) -> None:
        assert await state.exchange(b"GET /" + b"x" * 100_000) == b""

    run(scenario)


def test_too_many_at_once_are_cut_off_and_the_rest_is_served() -> None:
    async def scenario(state: State) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", state.port) for _ in range(64)]
        request = b"GET /healthz HTTP/1.1\r\n\r\n"
        while await state.exchange(request):
            pass  # the server has not taken all of the idle ones yet
        for _, writer in idle:
            writer.transport.abort()
        while not await state.exchange(request):
            pass  # nor noticed yet that they are gone

    run(scenario)


def test_it_stops_while_somebody_does_not_read() -> None:
    async def scenario(state: State) -> None:
        state.metrics = b"x" * 20_000_000
        reader, writer = await asyncio.open_connection("127.0.0.1", state.port, limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert await reader.read(10)
        state.unread = writer

    run(scenario)
