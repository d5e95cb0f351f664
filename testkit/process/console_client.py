"""A console's API as its page asks it, without the page."""

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from headrace.console.guard import OUR_HEADER

_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class ConsoleClient:
    """Asks one console, and keeps its cookie.

    Example:
        ConsoleClient(console.url).get("topics").json()["topics"]
    """

    url: str
    headers: dict[str, str] = field(default_factory=lambda: {OUR_HEADER: "1"})

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        return self.ask("POST", path, body)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """One request to `/api/<path>`, or to a path of its own that begins with a slash."""
        connection, answer = self.open(method, path, body)
        try:
            found = Answer(answer.status, answer.read(), dict(answer.getheaders()))
        finally:
            connection.close()
        cookie = found.headers.get("set-cookie")
        if cookie is not None:
            self.headers["Cookie"] = cookie.partition(";")[0]
        return found

    def open(self, method: str, path: str, body: Any = None) -> tuple[HTTPConnection, HTTPResponse]:
        """A request whose answer may never end: read its lines, then close the connection."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=_SECONDS)
        data = None if body is None else json.dumps(body).encode()
        target = path if path.startswith("/") else f"/api/{path}"
        connection.request(method, target, data, self.headers)
        return connection, connection.getresponse()
