"""Calls DRPC functions over HTTP, as Storm's DRPC server does.

    POST /drpc/<function>          the argument is the body
    GET  /drpc/<function>/<args>

Responses: 200 with the result; 404 no such function, 413 too long, 500 the function failed, 502 no
broker answers, 503 too many calls, 504 no reply in time. `?timeout=5` waits for five seconds. 403
and 421 refuse what a page of another site makes a browser send; see `browser_guard`.
"""

import threading
from collections.abc import Mapping
from typing import cast
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
from headrace.telemetry.browser_guard import (
    RequestHeaders,
    from_other_site,
    is_loopback_address,
    is_loopback_name,
)
from headrace.telemetry.http_server import HttpHandler, HttpServer

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


class Gateway:
    """A small HTTP server in front of the functions of one cluster.

    It has no login: let it listen where only trusted clients reach it.

    Args:
        settings: of its clients, such as sasl.username.
        timeout_seconds: how long a call waits unless its request sets `timeout`.
        most_connections: served at once; further ones get 503.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        brokers: str,
        settings: Mapping[str, str] | None = None,
        timeout_seconds: float = 10.0,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._clients = _Clients(brokers, settings or {})

        class Handler(_GatewayHandler):
            clients = self._clients
            only_loopback_names = is_loopback_address(host)
            default_seconds = timeout_seconds

        self._server = HttpServer(
            host, port, Handler, name="drpc-gateway", max_connections=most_connections
        )

    @property
    def port(self) -> int:
        return self._server.port

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.close()
        self._clients.close()


class _Clients:
    """The clients of all functions that were called; each is created at the first call."""

    def __init__(self, brokers: str, settings: Mapping[str, str]) -> None:
        self._brokers = brokers
        self._settings = dict(settings)
        self._clients: dict[str, DrpcClient] = {}
        self._lock = threading.Lock()

    def of(self, function: str) -> DrpcClient:
        with self._lock:
            client = self._clients.get(function)
            if client is not None:
                return client
            if len(self._clients) >= _MOST_FUNCTIONS:
                raise DrpcBusy(f"{_MOST_FUNCTIONS} functions are called through here already")
            if not FunctionTopics(function).exists(self._brokers, settings=self._settings):
                raise UnknownFunction(f"there is no function {function}")
            client = self._clients[function] = DrpcClient(
                function, brokers=self._brokers, settings=self._settings
            )
            return client

    def close(self) -> None:
        with self._lock:
            for each in self._clients.values():
                each.close()
            self._clients.clear()


class _GatewayHandler(HttpHandler):
    clients: _Clients
    default_seconds: float
    only_loopback_names: bool
    timeout = 30
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        if self._refused():
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self._respond(411, "the request needs a Content-Length", close=True)
        elif int(length) > MAX_ARGUMENT_BYTES:
            limit = f"{MAX_ARGUMENT_BYTES:,}"
            self._respond(413, f"an argument has at most {limit} bytes", close=True)
        else:
            body = self.rfile.read(int(length))
            try:
                self._call(body.decode(), in_path=False)
            except UnicodeDecodeError:
                self._respond(400, "an argument is text in UTF-8")

    def do_GET(self) -> None:
        if self._refused():
            return
        self._call("", in_path=True)

    def _refused(self) -> bool:
        """Refuse what a browser sends for another site, as the console does."""
        headers = cast(RequestHeaders, self.headers)
        if self.only_loopback_names and not is_loopback_name(headers.get("Host", "")):
            self._respond(421, "this gateway answers to 127.0.0.1 and localhost only", close=True)
        elif from_other_site(headers):
            self._respond(403, "a page of another site may not call functions", close=True)
        else:
            return False
        return True

    def _call(self, argument: str, *, in_path: bool) -> None:
        target = urlsplit(self.path)
        parts = target.path.split("/", 3)
        if len(parts) < 3 or parts[1] != "drpc" or (not in_path and len(parts) > 3):
            self._respond(404, "there are POST /drpc/<function> and GET /drpc/<function>/<args>")
            return
        if in_path:
            argument = unquote(parts[3]) if len(parts) > 3 else ""
        seconds = self._seconds(target.query)
        if seconds is None:
            self._respond(400, f"timeout is a number of seconds up to {_LONGEST_SECONDS:g}")
            return
        try:
            client = self.clients.of(unquote(parts[2]))
            self._respond(200, client.execute(argument, timeout_seconds=seconds))
        except (FlowError, ClientError) as error:
            status = next(code for kind, code in _STATUS if isinstance(error, kind))
            self._respond(status, str(error))

    def _seconds(self, query: str) -> float | None:
        values = parse_qs(query).get("timeout")
        if values is None:
            return self.default_seconds
        try:
            seconds = float(values[-1])
        except ValueError:
            return None
        return seconds if 0 < seconds <= _LONGEST_SECONDS else None

    def _respond(self, status: int, text: str, *, close: bool = False) -> None:
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            # The result of a function is foreign data: a browser must not guess its type.
            "X-Content-Type-Options": "nosniff",
        }
        if status == 503:
            headers["Retry-After"] = "1"
        if close:
            headers["Connection"] = "close"
        self.reply(status, text, headers)
