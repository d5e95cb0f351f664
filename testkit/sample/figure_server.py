"""Serves the figures of a flow that does not run."""

import json
from threading import Lock
from types import TracebackType
from typing import Any

from headrace.telemetry.http_server import HttpHandler, HttpServer


class FigureServer:
    """Serves at `/figures` what `serve` or `hold` set last."""

    def __init__(self) -> None:
        self._figures: dict[str, Any] = {}
        self._held = False
        self._lock = Lock()
        owner = self

        class Handler(HttpHandler):
            def do_GET(self) -> None:
                self.reply(200, json.dumps(owner._figures))

        self._http = HttpServer("127.0.0.1", 0, Handler, name="figures")

    @property
    def url(self) -> str:
        return f"http://{self._http.address}"

    def serve(self, **figures: Any) -> None:
        """Change these figures and keep the others; does nothing after `hold`."""
        with self._lock:
            if not self._held:
                self._figures = {**self._figures, **figures}

    def hold(self, **figures: Any) -> None:
        """Change these figures for the last time but for further calls of `hold`."""
        with self._lock:
            self._held = True
            self._figures = {**self._figures, **figures}

    def __enter__(self) -> "FigureServer":
        self._http.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
