"""One request and its response on an HTTP/2 connection, as the application sees it (ASGI).

Rule 1: what has arrived of a body is bounded by the stream's window. The client gets room for more
when the application asks for the next piece: while one waits for the budget of bodies, no other
comes. The window of the connection is no bound: a body that waits must not hold up another.
Rule 2: `send` returns when the connection has taken the bytes, and takes no more of them than the
client's window and the socket's buffer have room for. A client that does not read holds one piece.
Rule 3: a client that reads nothing for `WRITE_SECONDS`, or reads more slowly than `reading_pace`
allows, loses the stream. A response without a length may wait for its reader until
`_ENDLESS_SECONDS` after its head: it holds one piece, and gateways allow few of them. An error has
`ERROR_SECONDS`: strangers get it too.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final, Protocol

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from headrace.gateway.http.asgi import Message
from headrace.gateway.http.evictable_connection import WRITE_SECONDS
from headrace.gateway.http.http2.server_side import STREAM_WINDOW, ServerSide
from headrace.gateway.http.reading_pace import ReadingPace

_PIECE_BYTES: Final = 64 << 10
_ENDLESS_SECONDS: Final = 300.0 + WRITE_SECONDS
"""The five minutes that a gateway lets such a response last, and time to read its end."""

ERROR_SECONDS: Final = 5.0
_NOT_IN_HTTP2: Final = (b"connection", b"keep-alive", b"transfer-encoding", b"upgrade")

Headers = list[tuple[bytes, bytes]]


class StreamOwner(Protocol):
    """What a stream needs of its connection."""

    h2: ServerSide

    def flush(self) -> None:
        """Hand what `h2` has to send to the socket."""

    async def drain(self) -> None:
        """Return when the socket has room."""

    def succeeded(self) -> None:
        """Note that the application has accepted a request of this client."""

    def left_unread(self) -> None:
        """Note that the client has left a response unread for too long."""


class Http2Stream:
    """One stream. `receive` and `send` are for the application, the rest for the connection."""

    def __init__(self, owner: StreamOwner, stream_id: int, *, expects_continue: bool) -> None:
        self._owner = owner
        self._h2 = owner.h2
        self.id = stream_id
        self._expects_continue = expects_continue
        self._body = bytearray()
        self._arrived = 0
        self._taken = 0
        self._body_arrived = False
        self._body_taken = False
        self._gone = False
        self._head: Headers | None = None
        self._pace: ReadingPace | None = ReadingPace()
        self._most_seconds = WRITE_SECONDS
        self._deadline: float | None = None
        self._responded = False
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()

    # -- from the connection

    def add_body(self, data: bytes, window_bytes: int) -> None:
        """Keep a piece of the body; with its padding it takes so many bytes of the window."""
        self._body += data
        self._arrived += window_bytes
        self._changed.set()

    def end_body(self) -> None:
        self._body_arrived = True
        self._changed.set()

    def wake_writer(self) -> None:
        """Look at the client's window again."""
        self._has_room.set()

    def disconnect(self) -> None:
        """The client has reset the stream, or gone."""
        self._gone = True
        self._changed.set()
        self._has_room.set()

    def finish(self) -> None:
        """The application is done. A response that is not complete, or a body that was not taken,
        ends the stream with a reset."""
        self._body.clear()
        if self._gone:
            return
        if not self._responded:
            self._reset(ErrorCodes.INTERNAL_ERROR)
        elif not self._body_arrived:  # the client shall not send the rest
            self._reset(ErrorCodes.NO_ERROR)

    # -- for the application

    async def receive(self) -> Message:
        while True:
            if self._gone or self._responded:
                return {"type": "http.disconnect"}
            self._open_window()
            self._taken, self._arrived = self._taken + self._arrived, 0
            if self._body or (self._body_arrived and not self._body_taken):
                body = bytes(self._body)
                self._body.clear()
                self._body_taken = self._body_arrived
                return {"type": "http.request", "body": body, "more_body": not self._body_arrived}
            if self._expects_continue:
                self._expects_continue = False
                with suppress(ProtocolError):  # the connection was closed meanwhile
                    self._h2.send_headers(self.id, [(b":status", b"100")])
                self._owner.flush()
            self._changed.clear()
            await self._changed.wait()

    async def send(self, message: Message) -> None:
        if self._gone or self._responded:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
            return
        try:
            await self._write(message.get("body", b""), more=bool(message.get("more_body")))
        except TimeoutError:
            self._reset(ErrorCodes.CANCEL)
            self._owner.left_unread()
        except ProtocolError:  # the connection was closed meanwhile
            self.disconnect()

    def _begin(self, status: int, headers: Headers) -> None:
        """Keep the head until the first piece of the body, to send both at once."""
        self._head = [(b":status", b"%d" % status)]
        self._head += [(name, value) for name, value in headers if name not in _NOT_IN_HTTP2]
        if not any(name == b"content-length" for name, _ in headers):
            self._pace = None
            self._deadline = asyncio.get_running_loop().time() + _ENDLESS_SECONDS
        self._most_seconds = WRITE_SECONDS if status < HTTPStatus.BAD_REQUEST else ERROR_SECONDS
        if status < HTTPStatus.MULTIPLE_CHOICES:
            self._owner.succeeded()

    async def _write(self, body: bytes, *, more: bool) -> None:
        if self._head is not None:
            self._h2.send_headers(self.id, self._head)
            self._head = None
        for at in range(0, len(body), _PIECE_BYTES):
            piece = body[at : at + _PIECE_BYTES]
            async with self._paced(len(piece)):
                await self._write_piece(piece)
            if self._gone:
                return
        if not more:
            async with self._paced(_PIECE_BYTES):
                await self._owner.drain()
            if self._gone:
                return
            self._h2.end_stream(self.id)
            self._responded = True
            self._changed.set()
        self._owner.flush()

    @asynccontextmanager
    async def _paced(self, size: int) -> AsyncIterator[None]:
        """Give the client its time to read so many bytes.

        Raises:
            TimeoutError: it reads too slowly.
        """
        if self._pace is None:
            async with asyncio.timeout_at(self._deadline):
                yield
            return
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(min(self._most_seconds, self._pace.wait(size, clock()))):
            yield
        self._pace.go_on(clock())

    async def _write_piece(self, piece: bytes) -> None:
        written = 0
        while written < len(piece):
            await self._owner.drain()
            if self._gone:
                return
            before = written
            while room := self._room(len(piece) - written):
                self._h2.send_data(self.id, piece[written : written + room])
                written += room
            self._owner.flush()
            if written == before:
                self._has_room.clear()
                await self._has_room.wait()

    def _room(self, size: int) -> int:
        """Return how many of so many bytes may be sent as one frame."""
        window = self._h2.local_flow_control_window(self.id)
        return max(0, min(window, self._h2.max_outbound_frame_size, size))

    def _open_window(self) -> None:
        """Let the client send as much again as the application has taken and is done with."""
        if self._body_arrived or self._taken < STREAM_WINDOW // 2:
            return
        with suppress(ProtocolError):  # the connection was closed meanwhile
            self._h2.increment_flow_control_window(self._taken, self.id)
        self._taken = 0
        self._owner.flush()

    def _reset(self, code: ErrorCodes) -> None:
        self.disconnect()
        try:
            self._h2.reset_stream(self.id, code)
        except ProtocolError:  # it is closed already
            return
        self._owner.flush()
