"""A connection to another broker: one request at a time, answered into one buffer.

A follower's fetches go through it, so bytes are received into a buffer that is kept, and an answer
is a view of it: it must have been used before the next request.
"""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, Final

from headrace import __version__
from headrace.model.error import PeerError
from headrace.wire.api import ApiKey
from headrace.wire.fetch_request import FetchRequest, pack_fetch_request
from headrace.wire.fetch_response import FetchResponse
from headrace.wire.primitive import INT32
from headrace.wire.request import pack_request
from headrace.wire.response import parse_response

_SMALL_BYTES: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0
_CLIENT_ID: Final = f"headrace-{__version__}-replica"


class PeerLost(PeerError):
    """The other broker cannot be reached, went away, or answered something else."""


class PeerConnection:
    """Lives on the event loop. After any error it is closed: make a new one."""

    def __init__(self, sock: socket.socket, *, limit_bytes: int) -> None:
        """Use `open`."""
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._limit_bytes = limit_bytes
        self._buffer = bytearray(_SMALL_BYTES)
        self._correlation_id = 0
        self._turn = asyncio.Lock()
        self.closed = False

    @classmethod
    async def open(cls, host: str, port: int, *, limit_bytes: int = 1 << 30) -> "PeerConnection":
        """Connect.

        Args:
            limit_bytes: the largest answer that is taken.

        Raises:
            PeerLost: nobody answers there.
        """
        loop = asyncio.get_running_loop()
        sock: socket.socket | None = None
        try:
            (found, *_) = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            sock = socket.socket(found[0], socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.sock_connect(sock, found[4])
        except (OSError, TimeoutError) as error:
            if sock is not None:
                sock.close()
            raise PeerLost(f"cannot connect to the broker at {host}:{port}: {error}") from error
        except BaseException:
            if sock is not None:
                sock.close()
            raise
        return cls(sock, limit_bytes=limit_bytes)

    async def fetch(self, version: int, request: FetchRequest, seconds: float) -> FetchResponse:
        """Fetch; the records are views that hold until the next request."""
        self._correlation_id += 1
        frame = pack_fetch_request(version, self._correlation_id, _CLIENT_ID, request)
        answer: FetchResponse = await self._call(ApiKey.FETCH, version, frame, seconds)
        return answer

    async def call(
        self, api: ApiKey, version: int, body: Mapping[str, Any], seconds: float = 30.0
    ) -> Any:
        """Ask and wait for the answer; callers take turns.

        Raises:
            PeerLost: no answer, or not one to this.
        """
        async with self._turn:
            self._correlation_id += 1
            frame = pack_request(api, version, self._correlation_id, _CLIENT_ID, body)
            return await self._call(api, version, frame, seconds)

    async def _call(self, api: ApiKey, version: int, frame: bytes, seconds: float) -> Any:
        if self.closed:
            raise PeerLost("the connection to the other broker is closed")
        try:
            async with asyncio.timeout(seconds):
                await self._loop.sock_sendall(self._socket, frame)
                answer = await self._receive()
            correlation_id, body = parse_response(api, version, answer)
        except (OSError, TimeoutError, PeerError) as error:
            self.close()
            raise PeerLost(f"the other broker did not answer {api.name}: {error}") from error
        except BaseException:
            self.close()
            raise
        if correlation_id != self._correlation_id:
            self.close()
            raise PeerLost("the other broker answered another request")
        return body

    async def _receive(self) -> memoryview:
        """The next frame, without its size."""
        have = await self._fill(0, INT32.size)
        (size,) = INT32.unpack_from(self._buffer)
        if not INT32.size <= size <= self._limit_bytes:
            raise PeerLost(f"an answer of {size} bytes is not what was asked for")
        end = INT32.size + size
        if end > len(self._buffer):
            # Not resized: views of the last answer may still be there.
            larger = bytearray(end)
            larger[:have] = self._buffer[:have]
            self._buffer = larger
        await self._fill(have, end)
        return memoryview(self._buffer)[INT32.size : end]

    async def _fill(self, have: int, wanted: int) -> int:
        """Receive until so many bytes are there; more may come."""
        view = memoryview(self._buffer)
        while have < wanted:
            received = await self._loop.sock_recv_into(self._socket, view[have:])
            if received == 0:
                raise PeerLost("the other broker closed the connection")
            have += received
        return have

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._socket.close()
