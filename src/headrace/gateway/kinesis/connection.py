"""One HTTP connection, with the limits that uvicorn lacks.

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
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from headrace.gateway.kinesis.reading_pace import ReadingPace

HEAD_SECONDS: Final = 10.0
WRITE_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 75
MOST_CONNECTIONS: Final = 1024


class BoundedConnection(H11Protocol):
    """What uvicorn makes for each client."""

    most_connections = MOST_CONNECTIONS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._pace = ReadingPace()
        self._idle_since: float | None = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._abort)
        if len(self.connections) >= self.most_connections:
            self._close_idle()

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
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._abort)

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        self._pace = ReadingPace()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(WRITE_SECONDS, self._abort_unless_read, self.cycle)
        super().on_response_complete()

    def _abort_unless_read(self, cycle: RequestResponseCycle) -> None:
        """Abort if this response is still the last one, and the client has not read it."""
        if cycle is self.cycle and self.transport.get_write_buffer_size():
            self._abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self._pace.wait(self.transport.get_write_buffer_size(), self.loop.time())
        self._write_timer = self.loop.call_later(min(WRITE_SECONDS, seconds), self._abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        self._pace.go_on(self.loop.time())
        super().resume_writing()

    @property
    def _is_idle(self) -> bool:
        return not self.cycle or (
            self.cycle.response_complete and not self.transport.get_write_buffer_size()
        )

    def _close_idle(self) -> None:
        idle = [
            each
            for each in self.connections
            if isinstance(each, BoundedConnection) and each is not self and each._is_idle
        ]
        if idle:
            oldest = min(idle, key=lambda each: each._idle_since or 0.0)
            self.connections.discard(oldest)
            oldest._abort()

    def _abort(self) -> None:
        self.transport.abort()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
