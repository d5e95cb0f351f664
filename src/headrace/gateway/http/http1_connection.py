"""One HTTP/1.1 connection, with the limits that uvicorn lacks.

Rule 1: the head of a request must come within `HEAD_SECONDS`, the first one after the connection
was made, later ones after their first byte. Between two requests a connection may idle for
`IDLE_SECONDS`: clients keep connections, and one that is closed just when it is used again fails.
Rule 2: a client that reads nothing for `WRITE_SECONDS`, or reads a response more slowly than
`reading_pace` allows, while more waits for it than a small buffer holds, is cut off: its response
holds memory. So is one that leaves the rest of a response in that buffer and asks for nothing more:
a connection with bytes to send is not closed as idle.
Rule 3: when there are too many connections, the one that has been idle longest is closed. Clients
that keep connections open and send nothing do not keep others out.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.gateway.http.evictable_connection import (
    HEAD_SECONDS,
    MOST_CONNECTIONS,
    WRITE_SECONDS,
    EvictableConnection,
    close_longest_idle,
)
from headrace.gateway.http.reading_pace import ReadingPace


class Http1Connection(H11Protocol, EvictableConnection):
    """What uvicorn makes for each client. A gateway derives its own from it."""

    most_connections = MOST_CONNECTIONS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._pace = ReadingPace()
        self._idle_since: float | None = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        self._await_reading()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self._pace.wait(self.transport.get_write_buffer_size(), self.loop.time())
        if self._may_be_read_slowly():
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

    # -- for subclasses

    def _last_request(self) -> object:
        """Return something that equals itself until the next request comes."""
        return self.cycle

    def _may_be_read_slowly(self) -> bool:
        """Return whether the response holds no more memory however slowly the client reads it."""
        return False

    def _await_reading(self) -> None:
        """Give the client time to read the response that is complete (rule 2)."""
        self._pace = ReadingPace()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(WRITE_SECONDS, self._abort_unless_read, self._last_request())

    def _abort_unless_read(self, request: object) -> None:
        """Abort if no request has come since, and the client has not read its response."""
        if request == self._last_request() and self.transport.get_write_buffer_size():
            self.abort()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
