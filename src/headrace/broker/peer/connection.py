"""A connection to another broker: one request at a time, answered into one buffer.

A follower's fetches go through it, so bytes are received into a buffer that is kept, and an answer
is a view of it: it must have been used before the next request. And the answer to a fetch is handed
over in the turn of the event loop that received it, without a task in between: the next fetch tells
the leader what producers wait for, and each turn would add to the time they wait.

Rule 1: at most one request is under way. Bytes that nobody asked for end the connection.
Rule 2: whatever goes wrong ends it (`lost`), once; so does an answer that does not come in time.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
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


ShortWay = Callable[[int, memoryview], bytes | None]


class PeerLost(PeerError):
    """The other broker cannot be reached, went away, or answered something else."""


class PeerRefused(PeerLost):
    """Its machine says that nobody listens there: the other broker's process is gone."""


class PeerConnection:
    """Lives on the event loop. After any error it is closed: make a new one.

    Attributes:
        short_way: called first with an answer to a fetch: its number and its bytes. If it gives the
            bytes of the next fetch, with the next number, the answer has been taken.
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
        self._turn = asyncio.Lock()
        self._asked: tuple[ApiKey, int] | None = None
        self._take: Callable[[Any], None] | None = None
        self._seconds = 0.0
        self._deadline = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self.closed = False
        self.short_way: ShortWay | None = None
        self.lost: asyncio.Future[PeerLost | None] = self._loop.create_future()
        self._loop.add_reader(sock.fileno(), self._on_readable)

    @classmethod
    async def open(cls, host: str, port: int, *, limit_bytes: int = 1 << 30) -> "PeerConnection":
        """Connect.

        Args:
            limit_bytes: the largest answer that is taken.

        Raises:
            PeerLost: nobody answers there.
            PeerRefused: nobody is there to answer.
        """
        return cls(await connected_socket(host, port), limit_bytes=limit_bytes)

    # -- asking

    def fetch(
        self,
        version: int,
        request: FetchRequest,
        seconds: float,
        take: Callable[[FetchResponse], None],
    ) -> bytes:
        """Fetch. `take` is called with the answer, whose records are views that hold until the next
        request; it may send that. When there is no answer `lost` says so.

        Returns:
            the request as it was sent.
        """
        self._correlation_id += 1
        frame = pack_fetch_request(version, self._correlation_id, _CLIENT_ID, request)
        self._ask(ApiKey.FETCH, version, frame, seconds, take)
        return frame

    async def call(
        self, api: ApiKey, version: int, body: Mapping[str, Any], seconds: float = 30.0
    ) -> Any:
        """Ask and wait for the answer; callers take turns.

        Raises:
            PeerLost: no answer, or not one to this.
        """
        async with self._turn:
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
                    # Also when whoever waits was cancelled: the answer would be taken for the next.
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
        take: Callable[[Any], None],
    ) -> None:
        if self.closed:
            return
        assert self._asked is None, "one request at a time"
        self._asked = (api, version)
        self._take = take
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
        """One timer for many requests: it is only set again when it is over."""
        self._watchdog = None
        if self.closed or self._asked is None:
            return
        if self._loop.time() >= self._deadline:
            self.fail(f"it did not answer {self._asked[0].name} in time")
        else:
            self._watchdog = self._loop.call_at(self._deadline, self._watch)

    # -- answers

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
        """The next frame, without its size, if it is all there."""
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
        asked, take = self._asked, self._take
        assert asked is not None
        assert take is not None
        if self.short_way is not None and asked[0] is ApiKey.FETCH:
            again = self.short_way(self._correlation_id, frame)
            if again is not None:
                self._correlation_id += 1
                self._send(again)
                return
        correlation_id, body = parse_response(*asked, frame)
        if correlation_id != self._correlation_id:
            raise PeerLost("it answered another request")
        self._asked = self._take = None
        take(body)

    def fail(self, why: str) -> None:
        """Close it for a reason that `lost` tells."""
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


async def connected_socket(host: str, port: int) -> socket.socket:
    """
    Raises:
        PeerLost: nobody answers there.
        PeerRefused: nobody is there to answer.
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
        kind = PeerRefused if isinstance(error, ConnectionRefusedError) else PeerLost
        raise kind(f"cannot connect to the broker at {host}:{port}: {error}") from error
    except BaseException:
        if sock is not None:
            sock.close()
        raise
    return sock
