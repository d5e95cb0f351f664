"""A connection to another broker: one request at a time, its response in one buffer.

A follower's fetches go through it, so bytes are received into a buffer that is kept, and a response
is a view of it: it must have been used before the next request. The response to a fetch is handed
over in the turn of the event loop that received it, without a task in between: producers wait for
the next fetch, which says what this follower has, and each turn would add to the time they wait.

Rule 1: at most one request is under way. Bytes that are no response to it end the connection.
Rule 2: every failure ends it (`lost`), once; so does a response that does not come in time.
Rule 3: what was sent and not answered is not delivered once the connection has ended: it is reset,
not closed, also when this process is killed. Out of the kernel's buffers a request would arrive
after the one that is sent again: a late marker would end the producer's next transaction.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace import __version__
from headrace.broker.peer.host_resolver import HostResolver
from headrace.model.error import PeerError
from headrace.wire.api import ApiKey
from headrace.wire.fetch_request import FetchRequest, pack_fetch_request
from headrace.wire.fetch_response import FetchResponse
from headrace.wire.primitive import INT32
from headrace.wire.request import pack_request
from headrace.wire.response import parse_response

_SMALL_BYTES: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0
# l_onoff, l_linger: closing resets the connection, and drops what was not delivered (rule 3).
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_CLIENT_ID: Final = f"headrace-{__version__}-replica"


FetchFastPath = Callable[[int, memoryview], bytes | None]
"""Called with the correlation id and the bytes of a response to a fetch. It returns the bytes of
the next fetch, with the next correlation id, if it has used up the response; or None."""


class PeerLost(PeerError):
    """The other broker cannot be reached, went away, or answered something else."""


class PeerRefused(PeerLost):
    """Its machine has no listener there: the other broker's process is gone."""


class PeerConnection:
    """Sends requests to one broker and returns its responses. After any error it is closed: make
    a new one.

    Threads: event loop only.

    Attributes:
        lost: done when it is closed: with the reason, or with None by `close`.
    """

    def __init__(self, sock: socket.socket, *, limit_bytes: int) -> None:
        """Use `open`."""
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._limit_bytes = limit_bytes
        self._buffer = bytearray(_SMALL_BYTES)
        self._have = 0
        self._unsent: memoryview | None = None
        self._correlation_id = 0
        self._one_call = asyncio.Lock()
        self._asked: tuple[ApiKey, int] | None = None
        self._receive_body: Callable[[Any], None] | None = None
        self._seconds = 0.0
        self._deadline = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self.closed = False
        self._fast_path: FetchFastPath | None = None
        self.lost: asyncio.Future[PeerLost | None] = self._loop.create_future()
        self._loop.add_reader(sock.fileno(), self._on_readable)

    @classmethod
    async def open(
        cls, host: str, port: int, resolver: HostResolver, *, limit_bytes: int = 1 << 30
    ) -> "PeerConnection":
        """Connect.

        Args:
            resolver: looks up the host, if it is a name.
            limit_bytes: the largest response that is accepted.

        Raises:
            PeerLost: the connection cannot be made.
            PeerRefused: no process listens there.
        """
        return cls(await connected_socket(host, port, resolver), limit_bytes=limit_bytes)

    # -- requests

    def fetch(
        self,
        version: int,
        request: FetchRequest,
        seconds: float,
        receive: Callable[[FetchResponse], None],
        *,
        fast_path: FetchFastPath | None = None,
    ) -> bytes:
        """Send a fetch.

        Args:
            receive: called with the response, whose records are views that hold until the next
                request; it may send that. Without a response `lost` is done, with the reason.
            fast_path: called first with the bytes of this response, and of those to the fetches
                that it returns.

        Returns:
            the request as it was sent.
        """
        self._correlation_id += 1
        self._fast_path = fast_path
        frame = pack_fetch_request(version, self._correlation_id, _CLIENT_ID, request)
        self._ask(ApiKey.FETCH, version, frame, seconds, receive)
        return frame

    async def call(
        self, api: ApiKey, version: int, body: Mapping[str, Any], seconds: float = 30.0
    ) -> Any:
        """Send a request and wait for its response, after the requests of earlier callers.

        Raises:
            PeerLost: no response, or not one to this request.
        """
        async with self._one_call:
            if self.closed:
                raise PeerLost("the connection to the other broker is closed")
            self._correlation_id += 1
            frame = pack_request(api, version, self._correlation_id, _CLIENT_ID, body)
            answer: asyncio.Future[Any] = self._loop.create_future()
            self._ask(api, version, frame, seconds, answer.set_result)
            try:
                await asyncio.wait((answer, self.lost), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not answer.done():
                    # Also when the caller was cancelled: its response would be read as the next.
                    answer.cancel()
                    self.close()
            if answer.cancelled():
                raise self.lost.result() or PeerLost("the connection was closed")
            return answer.result()

    def _ask(
        self,
        api: ApiKey,
        version: int,
        frame: bytes,
        seconds: float,
        receive: Callable[[Any], None],
    ) -> None:
        if self.closed:
            return
        assert self._asked is None, "one request at a time"
        self._asked = (api, version)
        self._receive_body = receive
        self._seconds = seconds
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        self._have = 0
        self._deadline = self._loop.time() + self._seconds
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(self._deadline, self._watch)
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.fail(f"it cannot be asked: {error}")
            return
        if sent < len(frame):
            self._unsent = memoryview(frame)[sent:]
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        assert self._unsent is not None
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(f"it cannot be sent anything: {error}")
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._unsent = None
            self._loop.remove_writer(self._socket.fileno())

    def _watch(self) -> None:
        """Fail a request that timed out, or wait on: one timer serves many requests."""
        self._watchdog = None
        if self.closed or self._asked is None:
            return
        if self._loop.time() >= self._deadline:
            self.fail(f"it did not answer {self._asked[0].name} in time")
        else:
            self._watchdog = self._loop.call_at(self._deadline, self._watch)

    # -- responses

    def _on_readable(self) -> None:
        try:
            frame = self._receive()
            if frame is not None:
                self._answered(frame)
        except BlockingIOError:
            return
        except (OSError, PeerError) as error:
            self.fail(str(error))

    def _receive(self) -> memoryview | None:
        """Return the next frame, without its size, if it is all there."""
        view = memoryview(self._buffer)
        received = self._socket.recv_into(view[self._have :])
        if received == 0:
            raise PeerLost("it closed the connection")
        if self._asked is None:
            raise PeerLost("it said something that was not asked for")
        self._have += received
        if self._have < INT32.size:
            return None
        (size,) = INT32.unpack_from(self._buffer)
        if not INT32.size <= size <= self._limit_bytes:
            raise PeerLost(f"an answer of {size} bytes is not what was asked for")
        end = INT32.size + size
        if end > len(self._buffer):
            # Not resized: views of the last answer may still be there.
            larger = bytearray(end)
            larger[: self._have] = view[: self._have]
            self._buffer = larger
        if self._have > end:
            raise PeerLost("it said more than was asked for")
        return view[INT32.size : end] if self._have == end else None

    def _answered(self, frame: memoryview) -> None:
        asked, receive = self._asked, self._receive_body
        assert asked is not None
        assert receive is not None
        if self._fast_path is not None and asked[0] is ApiKey.FETCH:
            next_fetch = self._fast_path(self._correlation_id, frame)
            if next_fetch is not None:
                self._correlation_id += 1
                self._send(next_fetch)
                return
        correlation_id, body = parse_response(*asked, frame)
        if correlation_id != self._correlation_id:
            raise PeerLost("it answered another request")
        self._asked = self._receive_body = None
        receive(body)

    def fail(self, why: str) -> None:
        """Close it, and give `lost` the reason."""
        if not self.closed:
            self._end(PeerLost(f"the other broker is lost: {why}"))

    def close(self) -> None:
        if not self.closed:
            self._end(None)

    def _end(self, why: PeerLost | None) -> None:
        self.closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        if self._watchdog is not None:
            self._watchdog.cancel()
        if not self.lost.done():
            self.lost.set_result(why)


async def connected_socket(host: str, port: int, resolver: HostResolver) -> socket.socket:
    """Return a non-blocking socket that is connected. To look up the host takes part of the time;
    an address that comes too late is there for the next attempt.

    Raises:
        PeerLost: the connection cannot be made.
        PeerRefused: no process listens there.
    """
    loop = asyncio.get_running_loop()
    sock: socket.socket | None = None
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            family, address = await resolver.address(host, port)
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            await loop.sock_connect(sock, address)
    except (OSError, TimeoutError) as error:
        if sock is not None:
            sock.close()
        kind = PeerRefused if isinstance(error, ConnectionRefusedError) else PeerLost
        why = "no answer in time" if isinstance(error, TimeoutError) else error
        raise kind(f"cannot connect to the broker at {host}:{port}: {why}") from error
    except BaseException:
        if sock is not None:
            sock.close()
        raise
    return sock
