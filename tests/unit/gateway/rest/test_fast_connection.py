"""The fast path of produce requests answers as uvicorn does, and keeps what it may not answer."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn

from headrace.client.address import Address
from headrace.client.error import BrokerError, ClientError, ConnectionLost
from headrace.client.settings import ClientSettings
from headrace.gateway.rest import fast_connection, fast_produce
from headrace.gateway.rest.app import RestApp
from headrace.gateway.rest.connection import RestConnection
from headrace.gateway.rest.exchange import Services
from headrace.gateway.rest.fast_connection import FastConnection
from headrace.gateway.rest.produce.producer import Outcomes, TopicLeaders
from headrace.gateway.rest.produce.record import Placed, Record
from headrace.gateway.rest.settings import RestSettings
from headrace.wire.error_code import ErrorCode

LEADERS = TopicLeaders(2, {0: 1, 1: 1}, until=float("inf"))
JSON = "application/vnd.kafka.json.v2+json"


class FakeProducer:
    """Knows the topic `t`, and answers with offsets; not before it may."""

    def __init__(self) -> None:
        self.puts: list[list[Record]] = []
        self.held: list[asyncio.Future[Outcomes]] | None = None
        self.refusal: ClientError | None = None

    def known(self, topic: str) -> TopicLeaders | None:
        return LEADERS if topic == "t" else None

    async def find(self, topic: str) -> TopicLeaders:
        if topic != "t":
            raise BrokerError(ErrorCode.unknown_topic_or_partition)
        return LEADERS

    def put(self, _: str, __: TopicLeaders, records: list[Record]) -> "asyncio.Future[Outcomes]":
        future: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        if self.refusal is not None:
            future.set_exception(self.refusal)
            return future
        self.puts.append(records)
        if self.held is None:
            future.set_result(self.outcomes(records))
        else:
            self.held.append(future)
        return future

    def outcomes(self, records: list[Record]) -> Outcomes:
        lost = BrokerError(ErrorCode.not_enough_replicas)
        return [
            lost if each.value == b'"lost"' else Placed(each.partition or 0, at, 5)
            for at, each in enumerate(records)
        ]

    async def until_held(self, count: int) -> None:
        assert self.held is not None
        async with asyncio.timeout(60):
            while len(self.held) < count:
                await asyncio.sleep(0.001)


class Proxy:
    """One proxy without a cluster."""

    def __init__(self, server: uvicorn.Server, app: RestApp, producer: FakeProducer) -> None:
        self.server = server
        self.app = app
        self.producer = producer
        self.slow = 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return await asyncio.open_connection("127.0.0.1", port)

    async def ask(self, *requests: tuple[bytes, ...]) -> list[bytes]:
        """Send requests in pieces on one connection, each when the one before is answered; return
        the responses, without their dates."""
        reader, writer = await self.connect()
        found = []
        for pieces in requests:
            for each in pieces:
                writer.write(each)
                await asyncio.sleep(0)
            async with asyncio.timeout(60):
                head = await reader.readuntil(b"\r\n\r\n")
                size = re.search(rb"content-length: (\d+)", head)
                body = await (reader.readexactly(int(size[1])) if size else reader.read())
            found.append(re.sub(rb"date: [^\r]*\r\n", b"", head) + body)
        writer.close()
        return found


def serve(test: Callable[[Proxy], Awaitable[None]], kind: type[RestConnection]) -> None:
    async def run() -> None:
        settings = RestSettings(client=ClientSettings.of({}), listen=Address("127.0.0.1", 0))
        app = RestApp(settings, "http://127.0.0.1")
        producer = FakeProducer()
        with ThreadPoolExecutor(1) as parsers:
            services = SimpleNamespace(producer=producer, schemas=None, parsers=parsers)
            app._services = cast(Services, services)
            config = uvicorn.Config(
                app,
                port=0,
                http=kind,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                log_config=None,
            )
            server = uvicorn.Server(config)
            proxy = Proxy(server, app, producer)
            served = app._http

            async def counted(*arguments: Any) -> None:
                proxy.slow += 1
                await served(*arguments)

            app._http = counted  # type: ignore[assignment, method-assign]
            serving = asyncio.ensure_future(server.serve())
            async with asyncio.timeout(60):
                while not server.started:
                    await asyncio.sleep(0.01)
            try:
                await test(proxy)
            finally:
                server.should_exit = True
                await serving

    asyncio.run(run())


def request(
    body: bytes, path: str = "/topics/t", kind: str = JSON, *lines: str, host: str = "127.0.0.1"
) -> bytes:
    head = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Type: {kind}", *lines]
    if not any("ransfer" in each for each in lines):
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*head, "", "")).encode() + body


PLAIN = request(
    b'{"records": [{"value": "a"}, {"value": {"b": 1.50}}, {"key": "k", "value": null}]}'
)
BATCH = request(b'{"records": [%s]}' % b", ".join([b'{"value": "%s"}' % (b"x" * 1022)] * 100))
FAST = [
    (PLAIN,),
    (PLAIN[:150], PLAIN[150:170], PLAIN[170:]),
    (PLAIN,),
    (request(b'{"records":[{"value":"\\u00e9\\n"}]}'),),
    (PLAIN,),
    (request('{"records":[{"value":"é"},{"value":"lost"}]}'.encode()),),
    (request(b'{"records":[{"value":"aw=="}]}', kind="application/vnd.kafka.binary.v2+json"),),
    (request(b'{"records":[{"value":1}]}', "/topics/t/partitions/1"),),
    (BATCH[:70_000], BATCH[70_000:]),
    (request(b'{"records": [{"key": "%s", "value": 1}]}' % (b"k" * 4094)),),
    (request(b'{"records": [%s]}' % b",".join([b'{"key":"%s"}' % (b"k" * 126)] * 100)),),
]
DECLINED = [
    (request(b"{"),),
    (request(b'{"records": []}'),),
    (request(b'{"records": [{"value": NaN}]}'),),
    (request(b'{"records": [{"value": "\\ud800"}]}'),),
    (request(b'{"records": [{"value": "\xff"}]}'),),
    (request(b'{"records": [{"value": "aw="}]}', kind="application/json"),),
    (request(b'{"records": [{"value": 1, "partition": -1}]}'),),
    (request(b'{"records": [{"value": 1}]}', "/topics/other"),),
    (request(b'{"records": [{"value": 1}]}', "/topics/t/partitions/2"),),
    (request(b'{"records": [{"value": 1}]}', "/topics/t/partitions/x"),),
    (request(b'{"records": [{"value": 1}]}', "/consumers/t"),),
    (request(b'{"records": [{"value": 1}]}', kind="text/plain"),),
    (request(b'{"records": [{"value": 1}]}', kind="application/vnd.kafka.avro.v2+json"),),
    (request(b'{"records": [{"value": 1}]}', host="elsewhere"),),
    (request(b'{"records": [{"value": 1}]}', "/topics/t", JSON, "Origin: http://elsewhere"),),
    (request(b'1b\r\n{"records": [{"value": 1}]}\r\n0\r\n\r\n', "/topics/t", JSON,
             "Transfer-Encoding: chunked"),),
    (request(b'{"records": [%s]}' % b",".join([b'{"value":1}'] * 2000)),),
    (request(b'{"records": [{"key": "%s", "value": 1}]}' % (b"k" * 4095)),),
    (request(b'{"records": [%s]}' % b",".join([b'{"key":"%s"}' % (b"k" * 127)] * 32)),),
]  # fmt: skip


def answers(
    kind: type[RestConnection], *connections: list[tuple[bytes, ...]]
) -> tuple[list[Any], int]:
    """Return the responses and the puts per connection, and how many requests uvicorn had."""
    found: list[Any] = []
    slow: list[int] = []

    async def test(proxy: Proxy) -> None:
        for requests in connections:
            proxy.producer.puts.clear()
            found.append((await proxy.ask(*requests), list(proxy.producer.puts)))
        slow.append(proxy.slow)

    serve(test, kind)
    return found, slow[0]


def test_plain_requests_are_answered_without_uvicorn_and_as_it_answers_them() -> None:
    fast, slow = answers(FastConnection, FAST)
    expected, _ = answers(RestConnection, FAST)

    assert fast == expected
    assert len(fast[0][1]) == len(FAST)
    assert slow == 0


def test_everything_else_is_answered_by_uvicorn() -> None:
    connections: list[list[tuple[bytes, ...]]] = [[each] for each in DECLINED]
    fast, slow = answers(FastConnection, *connections)
    expected, _ = answers(RestConnection, *connections)

    assert fast == expected
    assert slow == len(DECLINED)


def test_both_take_turns_on_one_connection() -> None:
    mixed = [FAST[0], DECLINED[0], FAST[0], FAST[0], DECLINED[1], FAST[1]]
    fast, slow = answers(FastConnection, mixed)
    expected, _ = answers(RestConnection, mixed)

    assert fast == expected
    assert slow == 2


@pytest.mark.parametrize("kind", [FastConnection, RestConnection])
def test_requests_that_follow_without_waiting_are_answered_in_order(
    kind: type[RestConnection],
) -> None:
    async def test(proxy: Proxy) -> None:
        reader, writer = await proxy.connect()
        other = b"GET /none HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        writer.write(PLAIN)
        writer.write(PLAIN + PLAIN + other + b"\r\n")
        await asyncio.sleep(0)
        writer.write(PLAIN + other + b"connection: close\r\n\r\n")
        async with asyncio.timeout(60):
            found = await reader.read()
        writer.close()
        assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"200"] * 3 + [b"404", b"200", b"404"]

    serve(test, kind)


def test_what_comes_before_the_answer_waits_for_it() -> None:
    async def test(proxy: Proxy) -> None:
        proxy.producer.held = []
        reader, writer = await proxy.connect()
        writer.write(PLAIN)
        await proxy.producer.until_held(1)
        writer.write(PLAIN)
        [connection] = proxy.server.server_state.connections
        async with asyncio.timeout(60):
            while not cast(FastConnection, connection)._held:
                await asyncio.sleep(0.001)
        for at in range(2):
            await proxy.producer.until_held(at + 1)
            proxy.producer.held[at].set_result(proxy.producer.outcomes(proxy.producer.puts[at]))
            async with asyncio.timeout(60):
                assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        assert len(proxy.producer.puts) == 2
        writer.close()

    serve(test, FastConnection)


def test_a_body_that_comes_slowly_is_left_to_uvicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_connection, "_BODY_SECONDS", 0.0)

    async def test(proxy: Proxy) -> None:
        reader, writer = await proxy.connect()
        writer.write(PLAIN[:-5])
        async with asyncio.timeout(60):
            while not proxy.slow:
                await asyncio.sleep(0.001)
            writer.write(PLAIN[-5:])
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.close()

    serve(test, FastConnection)


def test_bytes_count_while_they_are_held_and_until_they_are_written() -> None:
    async def test(proxy: Proxy) -> None:
        budget = proxy.app._bodies
        whole = budget._left
        proxy.producer.held = []
        _, half = await proxy.connect()
        half.write(BATCH[:50_000])
        _, complete = await proxy.connect()
        complete.write(PLAIN)
        await proxy.producer.until_held(1)
        async with asyncio.timeout(60):
            while budget._left > whole - 50_000:
                await asyncio.sleep(0.001)
            half.close()
            complete.close()
            while len(proxy.server.server_state.connections) > 0:
                await asyncio.sleep(0.001)
        assert budget._left == whole - len(PLAIN)  # the client has gone, its records wait
        proxy.producer.held[0].set_result(proxy.producer.outcomes(proxy.producer.puts[0]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert budget._left == whole

    serve(test, FastConnection)


def test_without_room_for_a_body_uvicorn_waits_for_it() -> None:
    async def test(proxy: Proxy) -> None:
        budget = proxy.app._bodies
        others = budget.share()
        assert others.take_now(budget._left)
        reserve = budget.share()
        assert reserve.take_now(budget._reserve)
        reader, writer = await proxy.connect()
        writer.write(PLAIN)
        async with asyncio.timeout(60):
            while not proxy.slow:
                await asyncio.sleep(0.001)
            others.give_back()
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.close()

    serve(test, FastConnection)


def test_a_proxy_that_stops_answers_what_it_has_taken() -> None:
    async def test(proxy: Proxy) -> None:
        proxy.producer.held = []
        reader, writer = await proxy.connect()
        writer.write(PLAIN)
        await proxy.producer.until_held(1)
        for each in list(proxy.server.server_state.connections):
            each.shutdown()
        proxy.producer.held[0].set_result(proxy.producer.outcomes(proxy.producer.puts[0]))
        async with asyncio.timeout(60):
            found = await reader.read()
        assert found.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close\r\n" in found
        writer.close()

    serve(test, FastConnection)


def test_what_the_producer_refuses_is_an_error_of_uvicorns() -> None:
    async def test(proxy: Proxy) -> None:
        proxy.producer.refusal = ConnectionLost("the proxy is stopping")
        [found] = await proxy.ask((PLAIN,))
        assert b'"error_code":5000' in found
        assert proxy.slow == 1

    serve(test, FastConnection)


def test_a_response_that_fails_ends_the_connection_and_repeats_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> bytes:
        raise ValueError("no response")

    monkeypatch.setattr(fast_connection, "write_response", fail)

    async def test(proxy: Proxy) -> None:
        whole = proxy.app._bodies._left
        proxy.producer.held = []
        reader, writer = await proxy.connect()
        writer.write(PLAIN)
        await proxy.producer.until_held(1)
        [connection] = proxy.server.server_state.connections
        writer.write(PLAIN)
        async with asyncio.timeout(60):
            while not cast(FastConnection, connection)._held:
                await asyncio.sleep(0.001)
            proxy.producer.held[0].set_result(proxy.producer.outcomes(proxy.producer.puts[0]))
            with suppress(ConnectionError):
                assert await reader.read() == b""
            while proxy.server.server_state.connections:
                await asyncio.sleep(0.001)
        assert (len(proxy.producer.puts), proxy.slow) == (1, 0)
        assert proxy.app._bodies._left == whole
        writer.close()

    serve(test, FastConnection)


def test_what_fails_before_a_record_is_queued_is_left_to_uvicorn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Any:
        raise RecursionError("too deep")

    async def test(proxy: Proxy) -> None:
        fast = proxy.app.fast_produce
        found = fast._find
        monkeypatch.setattr(fast_produce, "parse_few_records", fail)
        [unparsed] = await proxy.ask((PLAIN,))
        monkeypatch.undo()
        fast._find = fail
        [unplanned] = await proxy.ask((PLAIN,))
        fast._find, fast._has_users = found, True
        [taken] = await proxy.ask((PLAIN,))
        assert proxy.slow == 2
        plan = fast.plan(PLAIN)
        assert plan is not None
        fast._find = fail
        assert not fast.admits(plan)
        for each in (unparsed, unplanned, taken):
            assert each.startswith(b"HTTP/1.1 200 OK")
        assert len(proxy.producer.puts) == 3

    serve(test, FastConnection)


class RecordingLoop:
    """A loop that keeps the timers of responses that were not read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.timers: list[Callable[[], object]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, seconds: float, work: Callable[..., object], *arguments: Any) -> Any:
        if work.__name__.startswith("_abort_unless"):
            self.timers.append(partial(work, *arguments))
        return self._loop.call_later(seconds, work, *arguments)


def test_the_time_to_read_a_response_ends_with_the_next_request() -> None:
    async def test(proxy: Proxy) -> None:
        reader, writer = await proxy.connect()
        writer.write(PLAIN)
        await reader.readuntil(b"\r\n\r\n")
        connection = cast(Any, next(iter(proxy.server.server_state.connections)))
        loop = connection.loop = RecordingLoop(connection.loop)
        aborted: list[None] = []
        connection.abort = lambda: aborted.append(None)
        connection.transport.get_write_buffer_size = lambda: 1  # as if nothing were read
        for each in (PLAIN, DECLINED[0][0], PLAIN):
            before = len(loop.timers)
            writer.write(each)
            async with asyncio.timeout(60):
                while len(loop.timers) == before:
                    await asyncio.sleep(0.001)
        assert proxy.slow == 1
        *stale, last = loop.timers
        for work in stale:
            work()
        assert aborted == []
        last()
        assert aborted == [None]
        writer.close()

    serve(test, FastConnection)


def test_a_connection_that_idles_is_closed() -> None:
    async def test(proxy: Proxy) -> None:
        proxy.server.config.timeout_keep_alive = 0
        reader, writer = await proxy.connect()
        writer.write(PLAIN)
        async with asyncio.timeout(60):
            assert b"200 OK" in await reader.read()
        writer.close()

    serve(test, FastConnection)
