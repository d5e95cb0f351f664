"""One HTTP/1.1 connection, with the limits that uvicorn lacks.

Rule 1: the head of a request must come within `HEAD_SECONDS`.
Rule 2: a client that reads nothing for `WRITE_SECONDS`, or reads a response more slowly than
`reading_pace` allows, is cut off: its response holds memory. A stream of events holds a bounded
piece at a time, so it may be read at any pace, but not left unread.
Rule 3: when there are too many connections, the one that has been idle longest is closed.
"""

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.gateway.http.evictable_connection import (
    HEAD_SECONDS,
    MOST_CONNECTIONS,
    WRITE_SECONDS,
    EvictableConnection,
    close_longest_idle,
)
from headrace.gateway.http.joined_transport import JoinedTransport
from headrace.gateway.http.reading_pace import ReadingPace

EVENT_STREAM_SUFFIX = "/stream"


class RestConnection(H11Protocol, EvictableConnection):
    """What serves all requests but those of a fast path."""

    most_connections = MOST_CONNECTIONS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._pace = ReadingPace()
        self._idle_since: float | None = self.loop.time()
        self._taken = 0  # requests of a fast path, which have no cycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._transport = transport
        self.transport = cast(asyncio.Transport, JoinedTransport(transport, self.loop))
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.abort)
        if len(self.connections) >= self.most_connections:
            close_longest_idle(self.connections, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._idle_since = None
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.abort)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.transport = self._transport  # a WebSocket writes whole messages
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        self._await_reading()
        super().on_response_complete()

    def _await_reading(self) -> None:
        """Give the client time to read the response that is complete."""
        self._pace = ReadingPace()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(WRITE_SECONDS, self._abort_unless_read, self.cycle, self._taken)

    def _abort_unless_read(self, cycle: object, taken: int) -> None:
        """Abort if no request has come since, and the client has not read its response."""
        is_last = cycle is self.cycle and taken == self._taken
        if is_last and self.transport.get_write_buffer_size():
            self.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self._pace.wait(self.transport.get_write_buffer_size(), self.loop.time())
        # The fast path has no scope.
        if self.scope is not None and self.scope["path"].endswith(EVENT_STREAM_SUFFIX):
            seconds = WRITE_SECONDS
        self._write_timer = self.loop.call_later(min(WRITE_SECONDS, seconds), self.abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        self._pace.go_on(self.loop.time())
        super().resume_writing()

    @property
    def idle_since(self) -> float | None:
        is_answered = not self.cycle or self.cycle.response_complete
        idle = is_answered and not self.transport.get_write_buffer_size()
        return (self._idle_since or 0.0) if idle else None

    def abort(self) -> None:
        self.transport.abort()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
