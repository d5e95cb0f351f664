"""A small HTTP server in a thread, from the standard library: metrics, monitors, gateways.

    class Handler(HttpHandler):
        def do_GET(self) -> None:
            self.reply(200, "ok", {"Content-Type": "text/plain"})

    with HttpServer("127.0.0.1", 0, Handler, name="health") as server:
        print(server.port)

It has no login: the caller chooses an address that only the right clients reach.
"""

import errno
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import BoundedSemaphore, Thread
from types import MappingProxyType, TracebackType
from typing import Any, Final

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_REFUSAL_SECONDS: Final = 1.0
_HANDSHAKE_SECONDS: Final = 30.0
_OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.1
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class HttpHandler(BaseHTTPRequestHandler):
    """Handles the requests of one connection. A subclass defines `do_GET`, `do_POST` and so on.

    A client that sends nothing for `timeout` seconds is disconnected. Requests are not logged.
    """

    timeout = 10

    def reply(
        self, status: int, body: str | bytes, headers: Mapping[str, str] = _NO_HEADERS
    ) -> None:
        """Send a whole response. The header `Connection: close` also closes the connection."""
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a scraper asks every few seconds."""


class HttpServer:
    """Listens once constructed, serves from `start` until `close`, with a thread per connection.

    Args:
        handler: the class that handles each connection.
        port: 0 lets the kernel choose.
        name: of the thread that accepts connections.
        max_connections: served at once; the server replies 503 to further ones and closes them.
            None sets no limit.
        tls: encrypts every connection; None leaves them plain.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handler: type[BaseHTTPRequestHandler],
        *,
        name: str,
        max_connections: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._server = _LimitedServer((host, port), handler, max_connections, tls)
        self._thread = Thread(target=self._server.serve_forever, name=name, daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop accepting connections and free the port; requests in progress are not awaited."""
        # `shutdown` waits for `serve_forever`, which never runs in a server that was not started.
        if self._thread.ident is not None:
            # Wakes the thread at once. A kernel that refuses lets it look within half a second.
            with suppress(OSError):
                self._server.socket.shutdown(SHUT_RDWR)
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> "HttpServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _LimitedServer(ThreadingHTTPServer):
    """A thread per connection, up to a limit."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        most: int | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._tls = tls
        self._free = None if most is None else BoundedSemaphore(most)
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket, Any]:
        try:
            return super().get_request()
        except OSError as error:
            # The socket stays readable, and `serve_forever` would spin.
            if error.errno in _OUT_OF_FILES:
                time.sleep(_PAUSE_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free is not None and not self._free.acquire(blocking=False):
            if self._tls is None:
                _refuse(request)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread could be started
            if self._free is not None:
                self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            connection = request if self._tls is None else _handshake(self._tls, request)
            if connection is None:
                self.shutdown_request(request)
            else:
                super().process_request_thread(connection, client_address)
        finally:
            if self._free is not None:
                self._free.release()


def _handshake(tls: ssl.SSLContext, connection: socket) -> socket | None:
    """Return the encrypted connection, or None. Called in the connection's own thread, so that a
    client that says nothing keeps no other one waiting."""
    try:
        connection.settimeout(_HANDSHAKE_SECONDS)
        return tls.wrap_socket(connection, server_side=True)
    except OSError:
        return None


def _refuse(connection: socket) -> None:
    try:
        connection.settimeout(_REFUSAL_SECONDS)
        connection.sendall(_REFUSAL)
    except OSError:
        return
