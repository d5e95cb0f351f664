"""A connection to another broker: what ends it, and which error its caller gets."""

import asyncio
import contextlib
import socket
import struct

import pytest

from headrace.broker.peer.connection import PeerConnection, PeerLost, connected_socket
from headrace.broker.peer.host_resolver import HostResolver
from headrace.wire.api import ApiKey

# ApiVersions v0 with correlation id 1: no error, no APIs.
ANSWER = struct.pack(">iihi", 10, 1, 0, 0)


async def ask(connection, seconds=30.0):
    return await connection.call(ApiKey.API_VERSIONS, 0, {}, seconds)


def play(serve, scenario):
    """A peer that does as `serve` says with each connection, and a scenario that talks to it."""

    served = asyncio.Event()

    async def guarded(reader, writer):
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        served.set()

    async def run():
        server = await asyncio.start_server(guarded, "127.0.0.1", 0)
        connection = await PeerConnection.open(*server.sockets[0].getsockname(), HostResolver())
        try:
            await scenario(connection)
        finally:
            connection.close()
            await served.wait()
            server.close()
            await server.wait_closed()

    asyncio.run(run())


async def answer_once(reader, writer):
    await reader.read(1024)
    writer.write(ANSWER)
    await writer.drain()
    await reader.read()


def test_an_answer_in_pieces_is_put_together():
    async def serve(reader, writer):
        await reader.read(1024)
        for at in range(len(ANSWER)):
            writer.write(ANSWER[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)
        await reader.read()

    async def scenario(connection):
        assert (await ask(connection)).error_code == 0

    play(serve, scenario)


def test_a_peer_that_hangs_up_is_lost():
    async def serve(reader, writer):
        await reader.read(1024)

    async def scenario(connection):
        with pytest.raises(PeerLost, match="closed the connection"):
            await ask(connection)
        assert connection.closed

    play(serve, scenario)


def test_a_peer_that_does_not_answer_in_time_is_lost():
    async def serve(reader, writer):
        await reader.read()

    async def scenario(connection):
        with pytest.raises(PeerLost, match="in time"):
            await ask(connection, 0.05)

    play(serve, scenario)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(struct.pack(">iihi", 10, 99, 0, 0), id="to another request"),
        pytest.param(struct.pack(">i", -5), id="a size that cannot be"),
        pytest.param(ANSWER + b"more", id="more than one answer"),
    ],
)
def test_a_peer_that_says_something_else_is_lost(said):
    async def serve(reader, writer):
        await reader.read(1024)
        writer.write(said)
        await writer.drain()
        await reader.read()

    async def scenario(connection):
        with pytest.raises(PeerLost):
            await ask(connection)
        assert connection.closed

    play(serve, scenario)


def test_whoever_gives_up_closes_it_as_the_answer_would_be_taken_for_the_next_one():
    async def serve(reader, writer):
        await reader.read()

    async def scenario(connection):
        asking = asyncio.create_task(ask(connection))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert connection.closed

    play(serve, scenario)


def test_a_closed_connection_is_asked_nothing():
    async def scenario(connection):
        await ask(connection)
        connection.close()

        with pytest.raises(PeerLost, match="closed"):
            await ask(connection)

    play(answer_once, scenario)


def test_what_was_sent_does_not_arrive_after_the_end_of_its_connection():
    # A peer that reads nothing, asleep or behind a cut cable: what it is sent waits in buffers.
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        async def send_and_give_up():
            sock = await connected_socket(*listener.getsockname(), HostResolver())
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    sent += sock.send(bytes(4096))
            sock.close()
            return sent

        sent = asyncio.run(send_and_give_up())
        peer, _ = listener.accept()
        arrived = 0
        with peer, contextlib.suppress(ConnectionResetError):
            while received := peer.recv(65536):
                arrived += len(received)
    assert arrived < sent
