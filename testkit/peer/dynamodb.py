"""A DynamoDB for clients that keep their leases in one: moto's, in a thread of the tests."""

from http.server import BaseHTTPRequestHandler
from threading import Lock
from types import TracebackType

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.test import Client

from headrace.telemetry.http_server import HttpServer

_HOST = "127.0.0.1"


class DynamoDb:
    """Serves until the block ends; its tables are moto's, and there is one set of them per process.

    Example:
        with DynamoDb() as dynamodb:
            boto3.client("dynamodb", endpoint_url=dynamodb.url)
    """

    def __init__(self) -> None:
        self._server = HttpServer(_HOST, 0, _handler(), name="dynamodb")
        self.url = f"http://{self._server.address}"

    def __enter__(self) -> "DynamoDb":
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()


def _handler() -> type[BaseHTTPRequestHandler]:
    moto, one_at_a_time = Client(create_backend_app("dynamodb")), Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            # Leases live on conditional writes, and moto looks and writes without a lock.
            with one_at_a_time:
                answer = moto.post(self.path, data=body, headers=list(self.headers.items()))
            self.send_response_only(answer.status_code)  # moto has the other headers
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
