"""Calls the API of a console as its page does."""

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from headrace.console.access.request_guard import OUR_HEADER

_SECONDS = 120


@dataclass(frozen=True, slots=True)
class ConsoleResponse:
    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class ConsoleClient:
    """Calls one console, and keeps its cookie.

    Example:
        ConsoleClient(console.url).get("topics").json()["topics"]
    """

    url: str
    headers: dict[str, str] = field(default_factory=lambda: {OUR_HEADER: "1"})

    def get(self, path: str) -> ConsoleResponse:
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> ConsoleResponse:
        return self.ask("POST", path, body)

    def ask(self, method: str, path: str, body: Any = None) -> ConsoleResponse:
        """Send one request to `/api/<path>`, or to a path that begins with a slash as it is."""
        connection, reply = self.open(method, path, body)
        try:
            response = ConsoleResponse(reply.status, reply.read(), dict(reply.getheaders()))
        finally:
            connection.close()
        cookie = response.headers.get("set-cookie")
        if cookie is not None:
            self.headers["Cookie"] = cookie.partition(";")[0]
        return response

    def open(self, method: str, path: str, body: Any = None) -> tuple[HTTPConnection, HTTPResponse]:
        """Send a request whose response may never end; the caller closes the connection."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=_SECONDS)
        data = None if body is None else json.dumps(body).encode()
        target = path if path.startswith("/") else f"/api/{path}"
        connection.request(method, target, data, self.headers)
        return connection, connection.getresponse()
