"""A WebSocket of a test: a socket, and wsproto for what goes over it."""

import json
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Message,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)


class WebSocketClient:
    """One WebSocket, once the server has accepted or refused it.

    Attributes:
        status: of HTTP; 101 if it was accepted.
        refusal: the bytes of the response if it was refused.
    """

    def __init__(self, url: str, target: str, headers: Mapping[str, str] | None = None) -> None:
        host = urlsplit(url).netloc
        name, _, port = host.rpartition(":")
        self.socket = socket.create_connection((name, int(port)), timeout=60)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self._text = ""
        extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        self._send(Request(host=host, target=target, extra_headers=extra))
        self.status, self.refusal = 101, b""
        first = self.next()
        if isinstance(first, RejectConnection):
            self.status = first.status_code
            while isinstance(data := self.next(), RejectData):
                self.refusal += data.data
                if data.body_finished:
                    break
        else:
            assert isinstance(first, AcceptConnection), first

    def _send(self, event: Event) -> None:
        self.socket.sendall(self._protocol.send(event))

    def send(self, text: str) -> None:
        self._send(Message(data=text))

    def ping(self, payload: bytes) -> None:
        self._send(Ping(payload=payload))

    def next(self) -> Event:
        """Return what comes next; pings are answered."""
        while True:
            while not self._events:
                data = self.socket.recv(65536)
                self._protocol.receive_data(data or None)
                self._events += self._protocol.events()
            event = self._events.pop(0)
            if isinstance(event, Ping):
                self._send(event.response())
            else:
                return event

    def message(self) -> Any:
        """Return the document of the next message."""
        while True:
            event = self.next()
            if isinstance(event, Pong):
                continue
            assert isinstance(event, TextMessage), event
            self._text += event.data
            if event.message_finished:
                text, self._text = self._text, ""
                return json.loads(text)

    def end(self) -> int:
        """Return the code with which the server ends it."""
        while True:
            event = self.next()
            if isinstance(event, CloseConnection):
                return int(event.code)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "WebSocketClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
