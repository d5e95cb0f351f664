"""One HTTP/2 connection of uvicorn's server: frames by `h2`, requests as ASGI.

`h2` keeps the protocol: it refuses what breaks it, heads of more than `HEAD_BYTES`, and more than
64 continuations of a head. What it leaves to its user are limits of work and time:

Rule 1: at most `MAX_CONCURRENT_REQUESTS` run per connection, and `request_limit` bounds those of
all connections. One that its client has reset counts until it is done: resetting requests as fast
as sending them (CVE-2023-44487) runs no more of them.
Rule 2: frames that carry nothing of a request, empty ones, and requests past the connection's own
limit are `_CONTROL_FRAMES_PER_SECOND` per second, or the connection ends. Window updates are free
as far as they follow from what the client was sent. A response that it leaves unread counts for
many frames.
Rule 3: a frame or a head that has begun is complete within `HEAD_SECONDS` and `HEAD_BYTES`; so is
the client's preface. A connection without requests is closed after `IDLE_SECONDS`.
Rule 4: while the client does not read, nothing is read of it: what answers its pings and settings
would pile up. After `WRITE_SECONDS` of that it is cut off.
Rule 5: what a client has sent is taken frame by frame, for `_TURN_SECONDS` per turn of the loop.
Nothing more is read of it meanwhile: one client does not hold up the others.
"""

import asyncio
import sys
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import structlog
import uvicorn
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from uvicorn.server import ServerState

from headrace.gateway.http.asgi import Scope
from headrace.gateway.http.evictable_connection import (
    HEAD_SECONDS,
    IDLE_SECONDS,
    WRITE_SECONDS,
    EvictableConnection,
)
from headrace.gateway.http.http2.frame_watch import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    WINDOW_UPDATE,
    FrameWatch,
)
from headrace.gateway.http.http2.request_limit import RequestLimit
from headrace.gateway.http.http2.server_side import (
    CONNECTION_WINDOW,
    HEAD_BYTES,
    MAX_CONCURRENT_REQUESTS,
    ServerSide,
)
from headrace.gateway.http.http2.stream import Headers, Http2Stream
from headrace.gateway.http.token_bucket import TokenBucket

log = structlog.get_logger()

_TURN_SECONDS: Final = 0.01
_CONTROL_FRAMES_PER_SECOND: Final = 200
_UNREAD_COST: Final = 20
_BYTES_PER_WINDOW_UPDATE: Final = 1 << 10
_LEAST_CREDIT_BYTES: Final = 4 << 10
_MOST_CREDIT_BYTES: Final = 4 << 20


class Http2Connection(asyncio.Protocol, EvictableConnection):
    """Takes over the transport of a connection whose client speaks HTTP/2."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        self._app = config.loaded_app
        self._app_state = app_state
        self._most = config.limit_concurrency or sys.maxsize
        self._tasks = server_state.tasks
        self._connections: set[Any] = server_state.connections
        self._loop = asyncio.get_running_loop()
        self.h2 = ServerSide()
        self._streams: dict[int, Http2Stream] = {}
        self._running = 0
        self._limit = RequestLimit.of(server_state)
        self._is_known = False
        self._used_window = 0
        self._control_frames = TokenBucket(_CONTROL_FRAMES_PER_SECOND, self._loop.time())
        self._window_credit = 0
        self._frames = FrameWatch()
        self._begun = 0
        self._next_turn: asyncio.Handle | None = None
        self._all_may_write = False
        self._idle_since: float | None = self._loop.time()
        self._stopping = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._start_timer("head", HEAD_SECONDS, self.abort)
        self._start_timer("idle", IDLE_SECONDS, self.shutdown)
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._limit.forget(self)
        if self._next_turn is not None:
            self._next_turn.cancel()
        for name in list(self._timers):
            self._stop_timer(name)
        for stream in list(self._streams.values()):
            stream.disconnect()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._frames.add(data)
        if self._next_turn is None:
            self._take_frames()

    def eof_received(self) -> None:
        """Take a client that sends no more for gone; the rest of what it was sent has its time."""
        self._end()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._transport.pause_reading()
        self._stop_timer("head")  # what the client has sent meanwhile is not read
        self._start_timer("write", WRITE_SECONDS, self.abort)

    def resume_writing(self) -> None:
        self._stop_timer("write")
        self._writable.set()
        if self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._take_frames)

    # -- for streams

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and not self._transport.is_closing():
            self._give_credit(max(len(data), _LEAST_CREDIT_BYTES))
            self._transport.write(data)

    async def drain(self) -> None:
        while not self._writable.is_set():  # another writer that was woken may have filled it
            await self._writable.wait()

    def succeeded(self) -> None:
        self._is_known = True
        self._limit.forget(self)

    def left_unread(self) -> None:
        self._count_control_frame(_UNREAD_COST)

    # -- for the server

    @property
    def idle_since(self) -> float | None:
        return None if self._transport.get_write_buffer_size() else self._idle_since

    def abort(self) -> None:
        self._transport.abort()

    def shutdown(self) -> None:
        """Close now if no request runs, else after the last one; accept no new ones."""
        self._stopping = True
        if not self._running:
            self._end()

    # -- frames and their events

    def _take_frames(self) -> None:
        """Take what the client has sent, for one turn of the loop; the rest waits for the next."""
        self._next_turn = None
        end = self._loop.time() + _TURN_SECONDS
        try:
            while self._writable.is_set() and not self._transport.is_closing():
                piece = self._frames.next_piece()
                if piece is None:
                    break
                self._take_piece(piece)
                if self._loop.time() >= end:
                    self._next_turn = self._loop.call_soon(self._take_frames)
                    break
        except ProtocolError as error:
            self._end(error.error_code)
        if self._all_may_write:
            self._all_may_write = False
            for each in self._streams.values():
                each.wake_writer()
        self.flush()
        self._watch_unfinished()
        if self._next_turn is not None:
            self._transport.pause_reading()
        elif self._writable.is_set():
            self._transport.resume_reading()

    def _take_piece(self, piece: bytes) -> None:
        kind = self._frames.kind
        if self._frames.is_first:
            self._count_frame(kind)
        if self._transport.is_closing():
            return
        if kind == GOAWAY:
            # The client begins no more requests. For `h2` it would be the end of those that run.
            self.shutdown()
            return
        if self._frames.head_bytes > HEAD_BYTES:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        for event in self.h2.receive_data(piece):
            if self._transport.is_closing():
                return
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin_request(event)
        elif isinstance(event, DataReceived):
            self._add_body(event)
        elif isinstance(event, StreamEnded):
            if stream := self._streams.get(event.stream_id):
                stream.end_body()
        elif isinstance(event, StreamReset):
            if stream := self._streams.get(event.stream_id):
                stream.disconnect()
        elif isinstance(event, WindowUpdated) and event.stream_id:
            if stream := self._streams.get(event.stream_id):
                stream.wake_writer()
        elif isinstance(event, WindowUpdated | RemoteSettingsChanged):
            self._all_may_write = True

    def _begin_request(self, event: RequestReceived) -> None:
        assert event.stream_id is not None
        if self._running >= MAX_CONCURRENT_REQUESTS:
            self._count_control_frame()
            self._refuse(event.stream_id)
            return
        if (
            self._stopping
            or not self._may_run()
            or len(self._tasks) >= self._most
            or len(self._connections) >= self._most
        ):
            self._refuse(event.stream_id)
            return
        scope = self._scope(event)
        expects_continue = (b"expect", b"100-continue") in scope["headers"]
        stream = Http2Stream(self, event.stream_id, expects_continue=expects_continue)
        self._streams[event.stream_id] = stream
        self._running += 1
        self._give_credit(_LEAST_CREDIT_BYTES)
        self._limit.begin(self, self._loop.time(), known=self._is_known)
        self._idle_since = None
        self._stop_timer("idle")
        task = self._loop.create_task(self._run(scope, stream))
        self._tasks.add(task)
        task.add_done_callback(partial(self._request_done, stream, self._is_known))

    def _may_run(self) -> bool:
        """Return whether the limits of all connections allow one more request."""
        if self._limit.allows(self._running, known=self._is_known):
            return True
        return not self._is_known and self._limit.make_room(self._running, self._loop.time())

    def _refuse(self, stream_id: int) -> None:
        with suppress(ProtocolError):  # its client may have reset it in the same moment
            self.h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)

    async def _run(self, scope: Scope, stream: Http2Stream) -> None:
        try:
            await self._app(scope, stream.receive, stream.send)
        except Exception:
            log.exception("http2_request_failed")

    def _request_done(self, stream: Http2Stream, known: bool, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._limit.end(known=known)
        self._streams.pop(stream.id, None)
        self._running -= 1
        if self._transport.is_closing():
            return
        stream.finish()
        if self._running:
            return
        self._idle_since = self._loop.time()
        self._limit.forget(self)
        if self._stopping:
            self._end()
        else:
            self._start_timer("idle", IDLE_SECONDS, self.shutdown)

    def _add_body(self, event: DataReceived) -> None:
        assert event.stream_id is not None
        assert event.data is not None
        assert event.flow_controlled_length is not None
        if not event.data and not event.stream_ended:
            self._count_control_frame()
        self._used_window += event.flow_controlled_length
        if self._used_window >= CONNECTION_WINDOW // 4:
            self.h2.increment_flow_control_window(self._used_window)
            self._used_window = 0
        if stream := self._streams.get(event.stream_id):
            stream.add_body(event.data, event.flow_controlled_length)

    def _scope(self, event: RequestReceived) -> Scope:
        pseudo: dict[bytes, bytes] = {}
        headers: Headers = []
        for name, value in event.headers or ():
            assert isinstance(name, bytes)
            assert isinstance(value, bytes)
            if name.startswith(b":"):
                pseudo[name] = value
            else:
                headers.append((name, value))
        if b":authority" in pseudo and not any(name == b"host" for name, _ in headers):
            headers.append((b"host", pseudo[b":authority"]))
        raw_path, _, query = pseudo.get(b":path", b"").partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "scheme": "https" if self._is_tls else "http",
            "method": pseudo.get(b":method", b"").decode("latin-1"),
            "root_path": "",
            "path": unquote(raw_path.decode("latin-1")),
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
            "state": self._app_state.copy(),
        }

    # -- limits

    def _count_frame(self, kind: int | None) -> None:
        """Count a frame that begins, unless it carries a request or follows from a response."""
        if kind in (HEADERS, CONTINUATION, DATA):  # an empty one is counted when `h2` has read it
            return
        if kind == WINDOW_UPDATE and self._window_credit >= _BYTES_PER_WINDOW_UPDATE:
            self._window_credit -= _BYTES_PER_WINDOW_UPDATE
            return
        self._count_control_frame()

    def _give_credit(self, size: int) -> None:
        """Let the client send window updates for so many bytes."""
        self._window_credit = min(_MOST_CREDIT_BYTES, self._window_credit + size)

    def _count_control_frame(self, cost: int = 1) -> None:
        if self._control_frames.allows(cost, self._loop.time()):
            self._control_frames.take(cost)
        elif not self._transport.is_closing():
            log.warning("http2_client_cut_off", reason="too many resets or control frames")
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)

    def _watch_unfinished(self) -> None:
        """Bound the time of a frame or a head that is not complete."""
        is_read = self._next_turn is None and self._writable.is_set()
        if not (is_read and self._frames.is_unfinished):
            self._stop_timer("head")
        elif self._begun != self._frames.begun or "head" not in self._timers:
            self._start_timer("head", HEAD_SECONDS, self.abort)
        self._begun = self._frames.begun

    def _end(self, code: ErrorCodes | int = ErrorCodes.NO_ERROR) -> None:
        """Say goodbye and close; a client that does not read it is cut off."""
        if "end" not in self._timers:
            self._start_timer("end", WRITE_SECONDS, self.abort)
        if self._transport.is_closing():
            return
        with suppress(ProtocolError):  # `h2` has said it already
            self.h2.close_connection(code)
        self.flush()
        self._transport.close()
        for stream in list(self._streams.values()):
            stream.disconnect()

    def _start_timer(self, name: str, seconds: float, action: Any) -> None:
        self._stop_timer(name)
        self._timers[name] = self._loop.call_later(seconds, action)

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
