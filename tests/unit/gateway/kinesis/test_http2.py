"""HTTP/2 on the gateway's port: requests, flow control, and clients that want too much of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import StreamClosedError
from h2.settings import SettingCodes
from hyperframe.frame import ContinuationFrame, HeadersFrame

from headrace.gateway.kinesis import reading_pace
from headrace.gateway.kinesis.asgi import Receive, Scope, Send
from headrace.gateway.kinesis.connection import BoundedConnection
from headrace.gateway.kinesis.http2 import connection, stream
from headrace.gateway.kinesis.http2.frame_watch import PREFACE

_MIB = 1 << 20
_SECONDS = 20


class Application:
    """Answers with what the path asks for, and counts the requests that run."""

    def __init__(self) -> None:
        self.running = 0
        self.most_running = 0
        self.disconnected = 0
        self.sent = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await getattr(self, scope["path"].strip("/"))(scope, receive, send)
        finally:
            self.running -= 1

    async def echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        await respond(send, body)

    async def head(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"])[b"host"]
        await respond(send, b"%s %s" % (scope["method"].encode(), host))

    async def large(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = (b"content-length", b"%d" % (4 * _MIB))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        for _ in range(64):
            await send({"type": "http.response.body", "body": b"x" * (64 << 10), "more_body": True})
            self.sent += 1
        await send({"type": "http.response.body", "body": b""})

    async def wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected += 1
        await self.go_on.wait()

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        closing = [(b"connection", b"close"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 413, "headers": closing})
        await send({"type": "http.response.body", "body": b"no"})

    async def fail(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a fault")


async def respond(send: Send, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


class Client:
    """h2's client side on a connection; it reads only when a test asks for events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.events: list[Event] = []

    def begin(self, **settings: int) -> None:
        self.h2.initiate_connection()
        self.h2.update_settings({SettingCodes[name]: value for name, value in settings.items()})
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def request(self, path: str, body: bytes | None = None, **headers: str) -> int:
        """Send a head, and a body if there is one; else the stream stays open."""
        stream_id = self.h2.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "here")]
        self.h2.send_headers(stream_id, [*head, *headers.items()])
        if body is not None:
            self.h2.send_data(stream_id, body, end_stream=True)
        self.flush()
        return stream_id

    async def send_large(self, stream_id: int, body: bytes) -> None:
        while body:
            room = min(self.h2.local_flow_control_window(stream_id), 16_384, len(body))
            if room:
                self.h2.send_data(stream_id, body[:room])
                body = body[room:]
                self.flush()
            else:
                await self.read()
        self.h2.end_stream(stream_id)
        self.flush()

    async def read(self, *, acknowledge: bool = True) -> bool:
        """Take what comes next; return False at the end of the connection."""
        data = await asyncio.wait_for(self.reader.read(_MIB), _SECONDS)
        events = self.h2.receive_data(data)
        self.events += events
        for event in events:
            if isinstance(event, DataReceived) and acknowledge:
                assert event.flow_controlled_length is not None
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return bool(data)

    async def until(self, kind: type[Event], stream_id: int | None = None, **how: bool) -> Any:
        """Read until an event comes."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and stream_id in (None, getattr(event, "stream_id", 0)):
                    return event
            assert await self.read(**how), f"no {kind.__name__} in {self.events}"

    async def response(self, stream_id: int) -> tuple[str, bytes]:
        await self.until(StreamEnded, stream_id)
        head = await self.until(ResponseReceived, stream_id)
        return dict(head.headers)[":status"], self.body(stream_id)

    def body(self, stream_id: int) -> bytes:
        return b"".join(
            each.data or b""
            for each in self.events
            if isinstance(each, DataReceived) and each.stream_id == stream_id
        )

    async def ended(self) -> ErrorCodes | int | None:
        """Return why the server has ended the connection; None if it has just gone."""
        try:
            while await self.read():
                pass
        except ConnectionError:
            pass
        codes = [each.error_code for each in self.events if isinstance(each, ConnectionTerminated)]
        return codes[0] if codes else None


Connect = Callable[[], Awaitable[Client]]
Test = Callable[[Application, Connect], Awaitable[None]]


def serve(test: Test, most: int = 100) -> None:
    """Run a test against a server."""

    class Connection(BoundedConnection):
        most_connections = most

    async def run() -> None:
        application = Application()
        server = uvicorn.Server(
            uvicorn.Config(application, port=0, http=Connection, lifespan="off", log_config=None)
        )
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        clients: list[Client] = []

        async def connect() -> Client:
            clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return clients[-1]

        try:
            await asyncio.wait_for(test(application, connect), 3 * _SECONDS)
        finally:
            application.go_on.set()
            for each in clients:
                each.writer.close()
            server.should_exit = True
            await serving

    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    asyncio.run(run())


def test_requests_share_a_connection() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        first, second = client.request("/echo"), client.request("/head", b"")
        assert await client.response(second) == ("200", b"POST here")
        body = bytes(range(256)) * 8192
        await client.send_large(first, body)
        assert await client.response(first) == ("200", body)

    serve(test)


def test_a_greeting_may_come_in_pieces() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.h2.initiate_connection()
        for byte in client.h2.data_to_send():
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_client_that_waits_for_it_is_sent_continue() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        sent = client.request("/echo", expect="100-continue")
        await client.until(InformationalResponseReceived, sent)
        await client.send_large(sent, b"body")
        assert await client.response(sent) == ("200", b"body")

    serve(test)


def test_a_response_waits_for_the_clients_window(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        sent = client.request("/large", b"")
        while len(client.body(sent)) < 65_535:
            await client.read(acknowledge=False)
        assert application.sent <= 1
        client.h2.increment_flow_control_window(8 * _MIB)
        client.h2.increment_flow_control_window(8 * _MIB, sent)
        client.flush()
        status, body = await client.response(sent)
        assert (status, len(body)) == ("200", 4 * _MIB)

    serve(test)


def test_a_client_that_leaves_its_window_closed_loses_the_stream_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "WRITE_SECONDS", 0.2)

    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin(INITIAL_WINDOW_SIZE=1000)
        sent = client.request("/large", b"")
        reset = await client.until(StreamReset, sent, acknowledge=False)
        assert reset.error_code == ErrorCodes.CANCEL
        assert len(client.body(sent)) == 1000
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_client_that_opens_its_window_in_drips_loses_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading_pace, "SLACK_SECONDS", 0.2)
    monkeypatch.setattr(reading_pace, "LEAST_BYTES_PER_SECOND", 1 << 30)

    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin(INITIAL_WINDOW_SIZE=1000)
        sent = client.request("/large", b"")
        while not any(isinstance(each, StreamReset) for each in client.events):
            await client.read(acknowledge=False)
            with suppress(StreamClosedError):
                client.h2.increment_flow_control_window(100, sent)
            client.flush()
        assert 1000 < len(client.body(sent)) < 4 * _MIB

    serve(test)


def test_a_body_that_is_not_taken_fills_its_window_and_no_more() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        held = client.request("/wait")
        await client.read()
        sent = 0
        while room := min(client.h2.local_flow_control_window(held), 16_384):
            client.h2.send_data(held, b"x" * room)
            client.flush()
            sent += room
        assert sent <= connection._STREAM_WINDOW
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_refused_body_is_not_waited_for() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        sent = client.request("/refuse")
        client.h2.send_data(sent, b"x" * 10_000)
        client.flush()
        assert await client.response(sent) == ("413", b"no")
        reset = await client.until(StreamReset, sent)
        assert reset.error_code == ErrorCodes.NO_ERROR
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_fault_resets_its_stream() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        reset = await client.until(StreamReset, client.request("/fail", b""))
        assert reset.error_code == ErrorCodes.INTERNAL_ERROR
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_the_application_learns_that_a_client_has_reset_or_gone() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        client.h2.reset_stream(client.request("/wait"))
        client.request("/wait")
        client.flush()
        while application.disconnected < 1:
            await asyncio.sleep(0.01)
        assert application.running == 2
        client.writer.close()
        while application.disconnected < 2:
            await asyncio.sleep(0.01)

    serve(test)


def test_requests_that_were_reset_count_until_they_are_done() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        for _ in range(connection.MOST_STREAMS):
            client.h2.reset_stream(client.request("/wait"))
        client.flush()
        refused = await client.until(StreamReset, client.request("/echo", b""))
        assert refused.error_code == ErrorCodes.REFUSED_STREAM
        assert application.most_running == connection.MOST_STREAMS
        application.go_on.set()
        while application.running:
            await asyncio.sleep(0.01)
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_client_that_resets_all_the_time_is_cut_off() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        for _ in range(2 * connection._ODD_PER_SECOND):
            client.h2.reset_stream(client.request("/wait"))
        client.flush()
        assert await client.ended() == ErrorCodes.ENHANCE_YOUR_CALM
        assert application.most_running <= connection.MOST_STREAMS

    serve(test)


def test_a_client_that_pings_all_the_time_is_cut_off() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        for _ in range(2 * connection._ODD_PER_SECOND):
            client.h2.ping(b"12345678")
        client.flush()
        assert await client.ended() == ErrorCodes.ENHANCE_YOUR_CALM

    serve(test)


def test_a_head_has_a_limit() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        client.request("/echo", b"", filler="x" * (2 * connection._HEAD_BYTES))
        assert await client.ended() == ErrorCodes.ENHANCE_YOUR_CALM
        assert application.most_running == 0

    serve(test)


@pytest.mark.parametrize("piece", [b"", b"x" * 16_000])
def test_a_head_without_end_is_cut_off(piece: bytes) -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        await client.read()
        head = HeadersFrame(1, data=b"\x83")
        client.writer.write(head.serialize())
        more = ContinuationFrame(1, data=piece)
        for _ in range(80):
            client.writer.write(more.serialize())
        assert await client.ended() is not None
        assert application.most_running == 0

    serve(test)


@pytest.mark.parametrize("sent", [b"", HeadersFrame(1, data=b"\x83").serialize()[:-1]])
def test_a_frame_that_does_not_come_is_not_waited_for(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)

    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.h2.initiate_connection()
        greeting = client.h2.data_to_send()
        client.writer.write(greeting + sent if sent else PREFACE)
        with pytest.raises(ConnectionError):
            while await asyncio.wait_for(client.reader.read(_MIB), _SECONDS):
                pass
            raise ConnectionResetError

    serve(test)


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.1)

    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")
        assert await client.ended() == ErrorCodes.NO_ERROR

    serve(test)


def test_idle_connections_make_room_for_new_ones() -> None:
    async def test(application: Application, connect: Connect) -> None:
        oldest = None
        for _ in range(4):
            client = await connect()
            oldest = oldest or client
            client.begin()
            assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")
        assert oldest is not None
        assert await oldest.ended() is None, "the oldest is closed"

    serve(test, most=3)


def test_what_is_no_http2_is_refused() -> None:
    async def test(application: Application, connect: Connect) -> None:
        client = await connect()
        client.writer.write(PREFACE + b"GET / HTTP/1.1\r\n\r\n" * 10)
        while await asyncio.wait_for(client.reader.read(_MIB), _SECONDS):
            pass
        assert application.most_running == 0

    serve(test)
