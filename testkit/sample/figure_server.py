"""What a flow tells about itself, without the flow."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any


class FigureServer:
    """Serves at `/figures` whatever it was told last."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}
        self._held = False
        self._lock = Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(server._told).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads who asked."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._http.serve_forever, name="figures", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def tell(self, **figures: Any) -> None:
        """Change these figures, and the others stay; unless somebody holds them."""
        with self._lock:
            if not self._held:
                self._told = {**self._told, **figures}

    def hold(self, **figures: Any) -> None:
        """As `tell`, and nothing changes them any more but this."""
        with self._lock:
            self._held = True
            self._told = {**self._told, **figures}

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
