"""A broker of a few lines on loopback: sends the responses of a test, or misbehaves."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.client.address import Address
from headrace.client.network.connection import BrokerConnection
from headrace.client.settings import ClientSettings
from headrace.wire.header import RequestHeader
from headrace.wire.request import Request, parse_request
from testkit.peer.peer import PeerMissing, find_program, require_peer

Answer = Callable[[RequestHeader, bytes], bytes | None]


class TinyBroker:
    """Serves one connection after the other; `answer` gets header and frame, None closes."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
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
                if self._tls is None:
                    self._serve_one(connection)
                    continue
                with self._tls.wrap_socket(connection, server_side=True) as encrypted:
                    self._serve_one(encrypted)

    def _serve_one(self, connection: socket.socket) -> None:
        while True:
            head = _receive(connection, 4)
            if len(head) < 4:
                return
            frame = _receive(connection, int.from_bytes(head, "big"))
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


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


@pytest.fixture
def tiny_brokers() -> Iterator[tuple[TinyBroker, TinyBroker]]:
    brokers = TinyBroker(), TinyBroker()
    yield brokers
    for broker in brokers:
        broker.close()


@pytest.fixture
def tiny_broker() -> Iterator[TinyBroker]:
    broker = TinyBroker()
    yield broker
    broker.close()


@dataclass(frozen=True)
class TlsBroker:
    """A tiny broker behind TLS, and the file with the certificate to trust."""

    broker: TinyBroker
    certificate: Path


@pytest.fixture
def tls_broker(tmp_path: Path) -> Iterator[TlsBroker]:
    try:
        openssl = find_program("openssl", package="openssl")
    except PeerMissing as missing:
        require_peer(str(missing))
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *(str(openssl), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    broker = TinyBroker(context)
    yield TlsBroker(broker, certificate)
    broker.close()


@pytest.fixture
def connect(tiny_broker: TinyBroker) -> Iterator[Callable[[], BrokerConnection]]:
    """Connects to the tiny broker; closed at the end of the test."""
    made: list[BrokerConnection] = []

    def make() -> BrokerConnection:
        settings = ClientSettings.of({"request.timeout.ms": "60000"})
        made.append(BrokerConnection(tiny_broker.address, settings))
        return made[-1]

    yield make
    for connection in made:
        connection.close()
