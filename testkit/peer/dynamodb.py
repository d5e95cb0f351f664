"""A DynamoDB for clients that keep their leases in one: moto's, in a thread of the tests."""

from collections.abc import Callable, Iterable
from threading import Lock, Thread
from types import TracebackType
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

_HOST = "127.0.0.1"


class DynamoDb:
    """Serves until the block ends; its tables are moto's, and there is one set of them per process.

    Example:
        with DynamoDb() as dynamodb:
            boto3.client("dynamodb", endpoint_url=dynamodb.url)
    """

    def __init__(self) -> None:
        self._server: BaseWSGIServer = make_server(
            _HOST, 0, _OneAtATime(), threaded=True, request_handler=_SilentHandler
        )
        self.url = f"http://{_HOST}:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, name="dynamodb", daemon=True)

    def __enter__(self) -> "DynamoDb":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join(timeout=30)
        self._server.server_close()


class _OneAtATime:
    """Leases live on conditional writes, and moto looks and writes without a lock."""

    def __init__(self) -> None:
        self._moto = create_backend_app("dynamodb")
        self._lock = Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            return list(self._moto(environ, start))


class _SilentHandler(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing for a request that was answered."""
