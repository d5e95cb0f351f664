"""A client's end of a broker's connection, over a real pair of sockets, and what hosts it."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from headrace.broker.config.listener import Listener
from headrace.broker.limited_warning import LimitedWarning
from headrace.broker.network.connection import Answer, Connection, Parts
from headrace.broker.network.connection_limits import ConnectionLimits
from headrace.broker.network.partial_requests import PartialRequests
from headrace.broker.network.poller import Poller
from headrace.wire.framing import BufferPool, Frame

log = structlog.get_logger(__name__)

PRODUCE = b"\x00\x00"
OTHER = b"\x00\x03"


def framed(body: bytes) -> bytes:
    """Return a request or response with its size before it."""
    return struct.pack(">i", len(body)) + body


def request(number: int, kind: bytes = OTHER) -> bytes:
    """Return a request whose body is its kind and a number."""
    return framed(kind + b"%d" % number)


LIMITS = ConnectionLimits(
    max_request_bytes=1 << 20,
    max_pending=500,
    max_partial_bytes=2**30,
    max_idle_ms=60_000,
    max_connections=1000,
    max_connections_per_host=1000,
    backlog=100,
)


class ConnectionPeer:
    """The client's end, the connection, and its host, with the requests that it was asked.

    Example:
        async def scenario() -> None:
            peer = ConnectionPeer(echo)
            await peer.send(request(1))
            assert await peer.receive(3) == OTHER + b"1"

        run(scenario)

    Args:
        answer: returns the answer to the bytes of a request.
        limits: those of `LIMITS` that are others here.

    Attributes:
        asked: the requests that the connection has handed on.
        left: the connection, once it has ended.
    """

    def __init__(self, answer: Callable[[bytes], Answer], **limits: int) -> None:
        self.client, server = socket.socketpair()
        self.client.setblocking(False)
        server.setblocking(False)
        self.loop = asyncio.get_running_loop()
        self.asked: list[bytes] = []
        self.left: list[Connection] = []
        self._answer = answer
        self.poller = Poller(self.loop)
        self.buffers = BufferPool()
        self.limits = replace(LIMITS, **limits)
        self.warnings = LimitedWarning(self.loop.time, log)
        self.partial_requests = PartialRequests(self.limits.max_partial_bytes)
        _peers.append(self)
        listener = Listener("PLAINTEXT", "127.0.0.1", 9092)
        self.connection = Connection(self, server, "127.0.0.1", listener)

    def dispatch(self, _: Connection, frame: Frame) -> Answer:
        self.asked.append(bytes(frame))
        return self._answer(bytes(frame))

    def forget(self, connection: Connection) -> None:
        self.left.append(connection)

    async def send(self, content: bytes) -> None:
        await self.loop.sock_sendall(self.client, content)

    async def receive(self, size: int) -> bytes:
        """So many bytes, or fewer when the connection ends before."""
        received = bytearray()
        while len(received) < size:
            try:
                chunk = await self.loop.sock_recv(self.client, size - len(received))
            except ConnectionResetError:
                break
            if not chunk:
                break
            received += chunk
        return bytes(received)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until it holds."""
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0)

    async def settle(self) -> None:
        """Let the loop turn often enough that whatever could happen has."""
        for _ in range(20):
            await asyncio.sleep(0)


_peers: list[ConnectionPeer] = []


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run it, not for ever, and close the sockets it leaves."""

    async def bounded() -> None:
        try:
            async with asyncio.timeout(60):
                await scenario()
        finally:
            while _peers:
                peer = _peers.pop()
                peer.client.close()
                peer.connection.close()
                peer.poller.close()

    asyncio.run(bounded())


def echo(frame: bytes) -> Answer:
    """Answer with the request's own bytes."""
    return (frame,)


class Futures:
    """Answers that the test completes; `all` has one for each request."""

    def __init__(self) -> None:
        self.all: list[asyncio.Future[Parts | None]] = []

    def __call__(self, frame: bytes) -> Answer:
        future: asyncio.Future[Parts | None] = asyncio.get_running_loop().create_future()
        self.all.append(future)
        return future
