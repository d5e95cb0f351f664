"""The HTTP answers of a running flow, without the flow."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any


class FigureServer:
    """Serves the figures that a test sets, at `/figures`."""

    def __init__(self) -> None:
        self._figures: dict[str, Any] = {}
        self._held = False
        self._lock = Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(server._figures).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log no requests."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._http.serve_forever, name="figures", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def tell(self, **figures: Any) -> None:
        """Change these figures and keep the others, unless `hold` was called."""
        with self._lock:
            if not self._held:
                self._figures = {**self._figures, **figures}

    def hold(self, **figures: Any) -> None:
        """Change these figures; from now on `tell` has no effect."""
        with self._lock:
            self._held = True
            self._figures = {**self._figures, **figures}

    def __enter__(self) -> "FigureServer":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
