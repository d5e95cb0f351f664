"""Clients that send nothing or read nothing do not keep others out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import uvicorn

from headrace.gateway.http import http1_connection, reading_pace
from headrace.gateway.http.asgi import Receive, Scope, Send
from headrace.gateway.http.connection import BoundedConnection

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
_LARGE = 64 << 20


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    size = _LARGE if scope["path"] == "/large" else 2
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/pieces":
        for _ in range(_LARGE >> 19):
            await send({"type": "http.response.body", "body": b"x" * (1 << 19), "more_body": True})
    await send({"type": "http.response.body", "body": b"x" * size})


def serve(test: Callable[[uvicorn.Server], Awaitable[None]], most: int = 100) -> None:
    """Run a test against a server."""

    class Connection(BoundedConnection):
        most_connections = most

    async def run() -> None:
        server = uvicorn.Server(
            uvicorn.Config(
                answer,
                port=0,
                http=Connection,
                lifespan="off",
                limit_concurrency=most + 1,
                log_config=None,
            )
        )
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            await test(server)
        finally:
            server.should_exit = True
            await serving

    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    asyncio.run(run())


async def connect(server: uvicorn.Server) -> Client:
    port = server.servers[0].sockets[0].getsockname()[1]
    return await asyncio.open_connection("127.0.0.1", port, limit=1024)


async def status_of(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(REQUEST)
    return (await asyncio.wait_for(reader.readline(), 60)).split()[1]


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Return what came before the server closed the connection, or reset it."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := await asyncio.wait_for(reader.read(1 << 20), 60):
            received += piece
    return received


def test_idle_connections_make_room_for_new_ones() -> None:
    async def test(server: uvicorn.Server) -> None:
        opened = [await connect(server) for _ in range(6)]
        assert await status_of(*opened[5]) == b"200"
        assert await asyncio.wait_for(opened[0][0].read(), 60) == b"", "the oldest is closed"
        for _, writer in opened:
            writer.close()

    serve(test, most=3)


@pytest.mark.parametrize("sent", [b"", REQUEST[:-4]])
def test_a_head_that_does_not_come_is_not_waited_for(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1_connection, "HEAD_SECONDS", 0.1)

    async def test(server: uvicorn.Server) -> None:
        reader, writer = await connect(server)
        writer.write(sent)
        assert await read_to_end(reader) == b""
        writer.close()

    serve(test)


def test_a_head_is_waited_for_again_after_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: uvicorn.Server) -> None:
        reader, writer = await connect(server)
        # For the second head: a slow machine may take longer for the first.
        monkeypatch.setattr(http1_connection, "HEAD_SECONDS", 0.3)
        assert await status_of(reader, writer) == b"200"
        writer.write(REQUEST[:-4])
        _head, _, body = (await read_to_end(reader)).partition(b"\r\n\r\n")
        assert body == b"2\r\nxx\r\n0\r\n\r\n", "the first response, and nothing behind it"
        writer.close()

    serve(test)


def test_a_client_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_connection, "WRITE_SECONDS", 0.2)

    async def test(server: uvicorn.Server) -> None:
        reader, writer = await connect(server)
        writer.write(REQUEST.replace(b"/ ", b"/large ", 1))
        while not server.server_state.connections:
            await asyncio.sleep(0.01)
        while server.server_state.connections:
            await asyncio.sleep(0.01)
        assert len(await read_to_end(reader)) < _LARGE
        writer.close()

    serve(test)


def test_a_client_that_reads_a_trickle_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_pace, "SLACK_SECONDS", 0.2)
    monkeypatch.setattr(reading_pace, "LEAST_BYTES_PER_SECOND", 1 << 30)

    async def test(server: uvicorn.Server) -> None:
        reader, writer = await connect(server)
        writer.write(REQUEST.replace(b"/ ", b"/pieces ", 1))
        received = 0
        with suppress(ConnectionResetError):
            while piece := await asyncio.wait_for(reader.read(64 << 10), 60):
                received += len(piece)
                await asyncio.sleep(0.01)  # some MB per second
        assert received < _LARGE
        writer.close()

    serve(test)


def test_a_client_that_leaves_the_rest_of_a_response_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http1_connection, "WRITE_SECONDS", 0.2)

    async def test(server: uvicorn.Server) -> None:
        reader, writer = await connect(server)
        writer.write(REQUEST)
        while not server.server_state.connections:
            await asyncio.sleep(0.01)
        [found] = server.server_state.connections
        monkeypatch.setattr(found.transport, "get_write_buffer_size", lambda: 1)
        assert (await read_to_end(reader)).startswith(b"HTTP/1.1 200 ")
        assert not server.server_state.connections
        writer.close()

    serve(test)
