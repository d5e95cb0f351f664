"""One WebSocket, with the limits that uvicorn lacks.

Rule 1: a client that reads nothing for `WRITE_SECONDS` is cut off, as one of a stream of events is.
Rule 2: while its client does not read, nothing is read from it: pings are answered, and answers
must not pile up.
Rule 3: a client that answers no ping, or does not end a WebSocket that the proxy has ended, is cut
off, with what it has not read.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection

from headrace.gateway.http.evictable_connection import WRITE_SECONDS, EvictableConnection

MOST_MESSAGE_BYTES: Final = 4096
"""Of a message from a client, of which none is expected."""

PING_SECONDS: Final = 15.0
PONG_SECONDS: Final = 30.0
_END_SECONDS: Final = 1.0


class RestWebSocket(WSProtocol, EvictableConnection):
    """What a `RestConnection` becomes when its client asks for a WebSocket."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._write_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._write_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        self.connections.add(self)  # uvicorn removes it, and an evicted one is removed already
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self.abort)
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self.transport.resume_reading()
        super().resume_writing()

    def handle_close(self, event: CloseConnection) -> None:
        # Of a wrong frame wsproto makes such an event too, and uvicorn would send no code.
        if not self.close_sent and self.conn.state is ConnectionState.OPEN:
            self.transport.write(self.conn.send(CloseConnection(event.code, event.reason)))
        super().handle_close(event)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._end_soon(_END_SECONDS)

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        super().on_task_complete(task)
        self._end_soon(WRITE_SECONDS)

    def _end_soon(self, seconds: float) -> None:
        if not self.disconnected and self._end_timer is None:
            self._end_timer = self.loop.call_later(seconds, self.abort)

    @property
    def idle_since(self) -> float | None:
        return None

    def abort(self) -> None:
        self.transport.abort()
