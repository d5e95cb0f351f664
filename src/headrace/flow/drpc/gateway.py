"""Calling functions over HTTP, as Storm's DRPC server lets you.

    POST /drpc/<function>          the argument is the body
    GET  /drpc/<function>/<args>

Answers: 200 with the result; 404 no such function, 413 too long, 500 the function failed, 503 too
many calls, 504 no reply in time. `?timeout=5` waits so many seconds.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from headrace.client.error import ClientError
from headrace.flow.drpc.client import DrpcClient
from headrace.flow.drpc.function_topics import (
    MAX_ARGUMENT_BYTES,
    DrpcBusy,
    DrpcError,
    DrpcFailed,
    DrpcTimeout,
    FunctionTopics,
    UnknownFunction,
)
from headrace.flow.error import FlowError

DEFAULT_PORT = 3774
"""Storm's."""

MOST_CONNECTIONS = 256
_MOST_FUNCTIONS = 64
_LONGEST_SECONDS = 600.0
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (UnknownFunction, 404),
    (DrpcBusy, 503),
    (DrpcTimeout, 504),
    (DrpcFailed, 500),
    (DrpcError, 502),
    (FlowError, 404),
    (ClientError, 502),
)
_REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class Gateway:
    """A small HTTP server before the functions of one cluster.

    It has no login: let it listen where only those can reach it who may call.

    Args:
        timeout_seconds: how long a call waits unless it says otherwise.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        brokers: str,
        timeout_seconds: float = 10.0,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._clients = _Clients(brokers)

        class Handler(_Handler):
            clients = self._clients
            default_seconds = timeout_seconds

        self._server = _Server((host, port), Handler, most_connections)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="drpc-gateway", daemon=True
        )

    @property
    def port(self) -> int:
        return self._server.server_port

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._clients.close()


class _Clients:
    """A client for each function that was called, made at its first call."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._clients: dict[str, DrpcClient] = {}
        self._lock = threading.Lock()

    def of(self, function: str) -> DrpcClient:
        with self._lock:
            found = self._clients.get(function)
            if found is not None:
                return found
            if len(self._clients) >= _MOST_FUNCTIONS:
                raise DrpcBusy(f"{_MOST_FUNCTIONS} functions are called through here already")
            if not FunctionTopics(function).exists(self._brokers):
                raise UnknownFunction(f"there is no function {function}")
            made = self._clients[function] = DrpcClient(function, brokers=self._brokers)
            return made

    def close(self) -> None:
        with self._lock:
            for each in self._clients.values():
                each.close()
            self._clients.clear()


class _Server(ThreadingHTTPServer):
    """A thread a connection, and no more than so many of them."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            _refuse(request)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


def _refuse(connection: socket) -> None:
    try:
        connection.settimeout(1)
        connection.sendall(_REFUSED)
    except OSError:
        return


class _Handler(BaseHTTPRequestHandler):
    clients: _Clients
    default_seconds: float
    timeout = 30
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self._answer(411, "the request needs a Content-Length", close=True)
        elif int(length) > MAX_ARGUMENT_BYTES:
            limit = f"{MAX_ARGUMENT_BYTES:,}"
            self._answer(413, f"an argument has at most {limit} bytes", close=True)
        else:
            body = self.rfile.read(int(length))
            try:
                self._call(body.decode(), in_path=False)
            except UnicodeDecodeError:
                self._answer(400, "an argument is text in UTF-8")

    def do_GET(self) -> None:
        self._call("", in_path=True)

    def _call(self, argument: str, *, in_path: bool) -> None:
        target = urlsplit(self.path)
        parts = target.path.split("/", 3)
        if len(parts) < 3 or parts[1] != "drpc" or (not in_path and len(parts) > 3):
            self._answer(404, "there are POST /drpc/<function> and GET /drpc/<function>/<args>")
            return
        if in_path:
            argument = unquote(parts[3]) if len(parts) > 3 else ""
        seconds = self._seconds(target.query)
        if seconds is None:
            self._answer(400, f"timeout is a number of seconds up to {_LONGEST_SECONDS:g}")
            return
        try:
            client = self.clients.of(unquote(parts[2]))
            self._answer(200, client.execute(argument, timeout_seconds=seconds))
        except (FlowError, ClientError) as error:
            status = next(code for kind, code in _STATUS if isinstance(error, kind))
            self._answer(status, str(error))

    def _seconds(self, query: str) -> float | None:
        told = parse_qs(query).get("timeout")
        if told is None:
            return self.default_seconds
        try:
            seconds = float(told[-1])
        except ValueError:
            return None
        return seconds if 0 < seconds <= _LONGEST_SECONDS else None

    def _answer(self, status: int, text: str, *, close: bool = False) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        # What a function answers is data of others: no browser is to guess at it.
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == 503:
            self.send_header("Retry-After", "1")
        if close:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Calls are counted by the topics, not told in the log."""
