"""HTTP/2 on the gateway's port: requests, responses, and flow control."""

import asyncio
from contextlib import suppress

import pytest
from h2.errors import ErrorCodes
from h2.events import InformationalResponseReceived, StreamReset
from h2.exceptions import StreamClosedError

from headrace.gateway.http import reading_pace
from headrace.gateway.http.http2 import server_side, stream
from testkit.process.http2_application import Connect, Http2Application, serve
from testkit.process.http2_client import MIB


def test_requests_share_a_connection() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        first, second = client.request("/echo"), client.request("/head", b"")
        assert await client.response(second) == ("200", b"POST here")
        body = bytes(range(256)) * 8192
        await client.send_large(first, body)
        assert await client.response(first) == ("200", body)

    serve(test)


def test_a_preface_may_come_in_pieces() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.h2.initiate_connection()
        for byte in client.h2.data_to_send():
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_client_that_waits_for_it_is_sent_continue() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        sent = client.request("/echo", expect="100-continue")
        await client.until(InformationalResponseReceived, sent)
        await client.send_large(sent, b"body")
        assert await client.response(sent) == ("200", b"body")

    serve(test)


def test_a_response_waits_for_the_clients_window() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        sent = client.request("/large", b"")
        while len(client.body(sent)) < 65_535:
            await client.read(acknowledge=False)
        assert application.sent <= 1
        client.h2.increment_flow_control_window(8 * MIB)
        client.h2.increment_flow_control_window(8 * MIB, sent)
        client.flush()
        status, body = await client.response(sent)
        assert (status, len(body)) == ("200", 4 * MIB)

    serve(test)


def test_a_client_that_leaves_its_window_closed_loses_the_stream_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "WRITE_SECONDS", 0.2)

    async def test(application: Http2Application, connect: Connect) -> None:
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
    # Long enough for a slow machine to open the window once.
    monkeypatch.setattr(reading_pace, "SLACK_SECONDS", 1.5)
    monkeypatch.setattr(reading_pace, "LEAST_BYTES_PER_SECOND", 1 << 30)

    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin(INITIAL_WINDOW_SIZE=1000)
        sent = client.request("/large", b"")
        while not any(isinstance(each, StreamReset) for each in client.events):
            await client.read(acknowledge=False)
            with suppress(StreamClosedError):
                client.h2.increment_flow_control_window(100, sent)
            client.flush()
        assert 1000 < len(client.body(sent)) < 4 * MIB

    serve(test)


def test_a_body_that_is_not_taken_fills_its_window_and_no_more() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        held = client.request("/wait")
        await client.read()
        sent = 0
        while room := min(client.h2.local_flow_control_window(held), 16_384):
            client.h2.send_data(held, b"x" * room)
            client.flush()
            sent += room
        assert sent <= server_side.STREAM_WINDOW
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_a_refused_body_is_not_waited_for() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
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
    async def test(application: Http2Application, connect: Connect) -> None:
        client = await connect()
        client.begin()
        reset = await client.until(StreamReset, client.request("/fail", b""))
        assert reset.error_code == ErrorCodes.INTERNAL_ERROR
        assert await client.response(client.request("/echo", b"hello")) == ("200", b"hello")

    serve(test)


def test_the_application_learns_that_a_client_has_reset_or_gone() -> None:
    async def test(application: Http2Application, connect: Connect) -> None:
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
