"""HTTP/2 on the gateway's port: clients that want too much of it."""

import asyncio
from contextlib import suppress

import pytest
from h2.errors import ErrorCodes
from h2.events import StreamReset
from hyperframe.frame import ContinuationFrame, HeadersFrame

from headrace.gateway.http.http2 import connection, server_side
from headrace.gateway.http.http2.frame_watch import PREFACE
from testkit.process.http2_application import Connect, Http2Application, serve
from testkit.process.http2_client import MIB, SECONDS

CUT_OFF = (ErrorCodes.ENHANCE_YOUR_CALM, None)
"""A socket that closes with unread bytes in it may drop what it had to say."""


def test_requests_that_were_reset_count_until_they_are_done() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        for _ in range(server_side.MAX_CONCURRENT_REQUESTS):
            client.h2.reset_stream(client.request("/wait"))
        client.flush()
        refused = await client.until(StreamReset, client.request("/echo", b""))
        assert refused.error_code == ErrorCodes.REFUSED_STREAM
        assert application.most_running == server_side.MAX_CONCURRENT_REQUESTS
        application.go_on.set()
        while application.running:
            await asyncio.sleep(0.01)
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_client_that_resets_all_the_time_is_cut_off() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        for _ in range(2 * connection._CONTROL_FRAMES_PER_SECOND):
            client.h2.reset_stream(client.request("/wait"))
        client.flush()
        assert await client.ended() in CUT_OFF
        assert application.most_running <= server_side.MAX_CONCURRENT_REQUESTS

    serve(test)


def test_a_client_that_pings_all_the_time_is_cut_off() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        for _ in range(2 * connection._CONTROL_FRAMES_PER_SECOND):
            client.h2.ping(b"12345678")
        client.flush()
        assert await client.ended() in CUT_OFF

    serve(test)


def test_a_head_has_a_limit() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        client.request("/echo", b"", filler="x" * server_side.HEAD_BYTES)
        assert await client.ended() in CUT_OFF
        assert application.most_running == 0

    serve(test)


@pytest.mark.parametrize("piece", [b"", b"x" * 16_000])
def test_a_head_without_end_is_cut_off(piece: bytes) -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
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

    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.h2.initiate_connection()
        preface = client.h2.data_to_send()
        client.writer.write(preface + sent if sent else PREFACE)
        with suppress(ConnectionError):
            while await asyncio.wait_for(client.reader.read(MIB), SECONDS):
                pass
        assert client.reader.at_eof() or client.reader.exception()

    serve(test)


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        # From the first request on: a slow machine may take longer for it.
        monkeypatch.setattr(connection, "IDLE_SECONDS", 0.1)
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")
        assert await client.ended() == ErrorCodes.NO_ERROR

    serve(test)


def test_idle_connections_make_room_for_new_ones() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
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
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.writer.write(PREFACE + b"GET / HTTP/1.1\r\n\r\n" * 10)
        while await asyncio.wait_for(client.reader.read(MIB), SECONDS):
            pass
        assert application.most_running == 0

    serve(test)
