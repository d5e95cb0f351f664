"""One HTTP connection, HTTP/1.1 with limits or HTTP/2.

Rule 1: a client that speaks HTTP/2, which TLS negotiates and plain text begins with, is handed over
to an `Http2Connection` before anything of it is read as HTTP/1.1.
"""

import asyncio
from typing import Any

from headrace.gateway.http.http1_connection import Http1Connection
from headrace.gateway.http.http2.connection import Http2Connection
from headrace.gateway.http.http2.frame_watch import PREFACE


class BoundedConnection(Http1Connection):
    """What uvicorn makes for each client."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._preface: bytes | None = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._preface = None
            if tls.selected_alpn_protocol() == "h2":
                self._hand_over(b"")

    def data_received(self, data: bytes) -> None:
        if self._preface is not None:
            data = self._preface + data
            self._preface = data
            if data.startswith(PREFACE):
                self._hand_over(data)
                return
            if PREFACE.startswith(data):  # the rest of it may come
                return
            self._preface = None
        super().data_received(data)

    def _hand_over(self, data: bytes) -> None:
        """Let HTTP/2 have this connection, and what has come of it."""
        self._stop_head_timer()
        self.connections.discard(self)
        successor = Http2Connection(self.config, self.server_state, self.app_state)
        self.transport.set_protocol(successor)
        successor.connection_made(self.transport)
        if data:
            successor.data_received(data)
