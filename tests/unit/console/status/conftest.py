"""A server that returns one body, whatever the request."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headrace.telemetry.http_server import HttpHandler, HttpServer

Serve = Callable[[bytes], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve bytes until the end of the test, and return their URL."""
    with ExitStack() as running:

        def start(body: bytes) -> str:
            class Handler(HttpHandler):
                def do_GET(self) -> None:
                    self.reply(200, body)

            server = HttpServer("127.0.0.1", 0, Handler, name="body")
            return f"http://{running.enter_context(server).address}"

        yield start
