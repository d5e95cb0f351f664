"""One HTTP/1.1 connection of the proxy, whose responses are joined before they are sent.

Rule 1: a stream of events holds a bounded piece at a time, so it may be read at any pace, but not
left unread.
"""

import asyncio
from typing import Any, cast

import h11

from headrace.gateway.http.http1_connection import Http1Connection
from headrace.gateway.http.joined_transport import JoinedTransport

EVENT_STREAM_SUFFIX = "/stream"


class RestConnection(Http1Connection):
    """What serves all requests but those of a fast path."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._taken = 0  # requests of a fast path, which have no cycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._transport = transport
        self.transport = cast(asyncio.Transport, JoinedTransport(transport, self.loop))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.transport = self._transport  # a WebSocket writes whole messages
        super().handle_websocket_upgrade(event)

    def _last_request(self) -> object:
        return self.cycle, self._taken

    def _may_be_read_slowly(self) -> bool:
        # The fast path has no scope.
        return self.scope is not None and self.scope["path"].endswith(EVENT_STREAM_SUFFIX)
