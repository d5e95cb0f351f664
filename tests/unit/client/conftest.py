"""A broker of a few lines on loopback: answers what it is told, or misbehaves."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from headrace.client.address import Address
from headrace.client.connection import Connection
from headrace.client.settings import ClientSettings
from headrace.wire.header import RequestHeader
from headrace.wire.request import Request, parse_request

Answer = Callable[[RequestHeader, bytes], bytes | None]


class TinyBroker:
    """Serves one connection after the other; `answer` gets header and frame, None closes."""

    def __init__(self) -> None:
        self.answer: Answer = lambda header, frame: None
        self.requests: list[RequestHeader] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname()[:2])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                self._serve_one(connection)

    def _serve_one(self, connection: socket.socket) -> None:
        while True:
            head = connection.recv(4, socket.MSG_WAITALL)
            if len(head) < 4:
                return
            frame = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
            request: Request = parse_request(frame)
            self.requests.append(request.header)
            answer = self.answer(request.header, frame)
            if answer is None:
                return
            connection.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def tiny_broker() -> Iterator[TinyBroker]:
    broker = TinyBroker()
    yield broker
    broker.close()


@pytest.fixture
def connect(tiny_broker: TinyBroker) -> Iterator[Callable[[], Connection]]:
    """Connects to the tiny broker; closed at the end of the test."""
    made: list[Connection] = []

    def make() -> Connection:
        settings = ClientSettings.of({"request.timeout.ms": "5000"})
        made.append(Connection(tiny_broker.address, settings))
        return made[-1]

    yield make
    for connection in made:
        connection.close()
