"""One HTTP/2 connection of uvicorn's server: frames by `h2`, requests as ASGI.

`h2` keeps the protocol: it refuses what breaks it, heads of more than `_HEAD_BYTES`, and more than
64 continuations of a head. What it leaves to its user are limits of work and time:

Rule 1: at most `MOST_STREAMS` requests run per connection. One that its client has reset counts
until it is done: resetting requests as fast as sending them (CVE-2023-44487) runs no more of them.
Rule 2: resets, refused requests, pings, settings, priorities and empty frames are `_ODD_PER_SECOND`
per second, or the connection ends.
Rule 3: a frame or a head that has begun is complete within `HEAD_SECONDS` and `_HEAD_BYTES`; so is
the client's greeting. A connection without requests is closed after `IDLE_SECONDS`.
Rule 4: while the client does not read, nothing is read of it: what answers its pings and settings
would pile up. After `WRITE_SECONDS` of that it is cut off.
"""

import asyncio
import sys
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import structlog
import uvicorn
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingReceived,
    PriorityUpdated,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    UnknownFrameReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from uvicorn.server import ServerState

from headrace.gateway.kinesis.asgi import Scope
from headrace.gateway.kinesis.http2.frame_watch import FrameWatch
from headrace.gateway.kinesis.http2.stream import Headers, Http2Stream
from headrace.gateway.kinesis.idle_connection import (
    HEAD_SECONDS,
    IDLE_SECONDS,
    WRITE_SECONDS,
    IdleConnection,
)
from headrace.gateway.kinesis.limit.token_bucket import TokenBucket

log = structlog.get_logger()

MOST_STREAMS: Final = 128
"""Twice the subscriptions of a gateway: a client may have all of them, and read with others."""

_HEAD_BYTES: Final = 32 << 10
_STREAM_WINDOW: Final = 128 << 10
_CONNECTION_WINDOW: Final = 256 << 10
_DEFAULT_WINDOW: Final = 65_535
_ODD_PER_SECOND: Final = 200
_ODD: Final = (PingReceived, RemoteSettingsChanged, PriorityUpdated, UnknownFrameReceived)


class Http2Connection(asyncio.Protocol, IdleConnection):
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
        self.h2 = _server_side()
        self._streams: dict[int, Http2Stream] = {}
        self._running = 0
        self._odd = TokenBucket(_ODD_PER_SECOND, self._loop.time())
        self._frames = FrameWatch()
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
        self.h2.increment_flow_control_window(_CONNECTION_WINDOW - _DEFAULT_WINDOW)
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        for name in list(self._timers):
            self._stop_timer(name)
        for stream in list(self._streams.values()):
            stream.disconnect()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            events = self.h2.receive_data(data)
        except ProtocolError:
            self._end()
            return
        self._watch_unfinished(data)
        for event in events:
            if self._transport.is_closing():
                return
            self._handle(event)
        self.flush()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._transport.pause_reading()
        self._start_timer("write", WRITE_SECONDS, self.abort)

    def resume_writing(self) -> None:
        self._stop_timer("write")
        self._transport.resume_reading()
        self._writable.set()

    # -- for streams

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        await self._writable.wait()

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

    # -- events

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
            self._count_odd()
        elif isinstance(event, ConnectionTerminated):
            self.shutdown()
        elif isinstance(event, _ODD):
            self._count_odd()
        if isinstance(event, WindowUpdated | RemoteSettingsChanged):
            self._wake_writers(event)

    def _begin_request(self, event: RequestReceived) -> None:
        assert event.stream_id is not None
        if (
            self._stopping
            or self._running >= MOST_STREAMS
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
        self._idle_since = None
        self._stop_timer("idle")
        task = self._loop.create_task(self._run(scope, stream))
        self._tasks.add(task)
        task.add_done_callback(partial(self._request_done, stream))

    def _refuse(self, stream_id: int) -> None:
        with suppress(ProtocolError):  # its client may have reset it in the same moment
            self.h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
        self._count_odd()

    async def _run(self, scope: Scope, stream: Http2Stream) -> None:
        try:
            await self._app(scope, stream.receive, stream.send)
        except Exception:
            log.exception("kinesis_request_failed")

    def _request_done(self, stream: Http2Stream, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._streams.pop(stream.id, None)
        self._running -= 1
        if self._transport.is_closing():
            return
        stream.finish()
        if self._running:
            return
        self._idle_since = self._loop.time()
        if self._stopping:
            self._end()
        else:
            self._start_timer("idle", IDLE_SECONDS, self.shutdown)

    def _add_body(self, event: DataReceived) -> None:
        assert event.stream_id is not None
        assert event.data is not None
        assert event.flow_controlled_length is not None
        if not event.data and not event.stream_ended:
            self._count_odd()
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.add_body(event.data, event.flow_controlled_length)
        elif event.flow_controlled_length:  # of a request that is refused or done
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def _wake_writers(self, event: WindowUpdated | RemoteSettingsChanged) -> None:
        if isinstance(event, WindowUpdated) and event.stream_id:
            if stream := self._streams.get(event.stream_id):
                stream.wake_writer()
            return
        for each in self._streams.values():
            each.wake_writer()

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

    def _count_odd(self) -> None:
        if self._odd.allows(1, self._loop.time()):
            self._odd.take(1)
        elif not self._transport.is_closing():
            log.warning("kinesis_http2_client_cut_off", reason="too many resets or control frames")
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)

    def _watch_unfinished(self, data: bytes) -> None:
        """Bound the time of a frame, and time and size of a head, that is not complete."""
        begun = self._frames.begun
        self._frames.add(data)
        if not self._frames.is_unfinished:
            self._stop_timer("head")
        elif begun != self._frames.begun or "head" not in self._timers:
            self._start_timer("head", HEAD_SECONDS, self.abort)
        if self._frames.head_bytes > 2 * _HEAD_BYTES:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)

    def _end(self, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Say goodbye and close; a client that does not read it is cut off."""
        if self._transport.is_closing():
            return
        with suppress(ProtocolError):  # `h2` has said it already
            self.h2.close_connection(code)
        self.flush()
        self._transport.close()
        for stream in list(self._streams.values()):
            stream.disconnect()
        self._start_timer("write", WRITE_SECONDS, self.abort)

    def _start_timer(self, name: str, seconds: float, action: Any) -> None:
        self._stop_timer(name)
        self._timers[name] = self._loop.call_later(seconds, action)

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def _server_side() -> H2Connection:
    """Return the protocol of a server, with our limits in force before the client knows them."""
    h2 = H2Connection(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    h2.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: _HEAD_BYTES,
            SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
        },
    )
    h2.decoder.max_header_list_size = _HEAD_BYTES
    return h2
