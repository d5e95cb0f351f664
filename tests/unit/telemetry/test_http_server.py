"""The HTTP server that metrics, monitors and gateways share."""

import errno
import socket
import urllib.error
import urllib.request
from functools import partialmethod
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from headrace.telemetry.http_server import HttpHandler, HttpServer


class Hello(HttpHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        headers = {"Connection": "close"} if self.path == "/bye" else {}
        self.reply(200, f"hello {self.path}", {"Content-Type": "text/plain", **headers})


def get(server: HttpServer, path: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_it_serves_between_start_and_close() -> None:
    with HttpServer("127.0.0.1", 0, Hello, name="hello") as server:
        assert server.address == f"127.0.0.1:{server.port}"
        assert get(server, "/x") == (200, b"hello /x")
    with pytest.raises(ConnectionRefusedError):
        get(server, "/x")


def test_a_server_that_never_started_can_be_closed() -> None:
    server = HttpServer("127.0.0.1", 0, Hello, name="hello")
    server.close()
    with pytest.raises(ConnectionRefusedError):
        get(server, "/x")


def test_a_close_wakes_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    looks_rarely = partialmethod(ThreadingHTTPServer.serve_forever, poll_interval=3600)
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", looks_rarely)
    server = HttpServer("127.0.0.1", 0, Hello, name="hello")
    server.start()
    assert get(server, "/x") == (200, b"hello /x")
    closing = Thread(target=server.close, daemon=True)
    closing.start()
    closing.join(90)
    assert not closing.is_alive()


def test_a_taken_port_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        HttpServer("127.0.0.1", taken.getsockname()[1], Hello, name="hello")


def test_a_connection_is_kept_until_a_reply_closes_it() -> None:
    with HttpServer("127.0.0.1", 0, Hello, name="hello") as server:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        for path in ("/one", "/two", "/bye"):
            connection.request("GET", path)
            assert connection.getresponse().read() == f"hello {path}".encode()
        assert connection.sock is None
        connection.close()


def test_connections_beyond_the_limit_get_503() -> None:
    entered, leave = Event(), Event()

    class Slow(HttpHandler):
        def do_GET(self) -> None:
            entered.set()
            leave.wait(90)
            self.reply(200, b"done")

    with HttpServer("127.0.0.1", 0, Slow, name="slow", max_connections=1) as server:
        url = f"http://127.0.0.1:{server.port}/"
        first = HTTPConnection("127.0.0.1", server.port, timeout=30)
        first.request("GET", "/")
        assert entered.wait(90)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, timeout=30)
        refused.value.close()
        leave.set()
        assert first.getresponse().read() == b"done"
        first.close()
    assert (refused.value.code, refused.value.headers["Retry-After"]) == (503, "1")


def test_without_free_descriptors_it_pauses_and_then_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("headrace.telemetry.http_server.time.sleep", pauses.append)
    failures = [errno.EMFILE, errno.ECONNABORTED, errno.EMFILE]

    class Listener(socket.socket):
        def accept(self) -> Any:
            if failures:
                raise OSError(failures.pop(), "refused by the system")
            return super().accept()

    with HttpServer("127.0.0.1", 0, Hello, name="hello") as server:
        listening = server._server.socket
        server._server.socket = Listener(fileno=listening.fileno())
        try:
            assert get(server, "/x") == (200, b"hello /x")
        finally:
            server._server.socket.detach()
            server._server.socket = listening
    assert pauses == [0.1, 0.1]
