"""`--metrics HOST:PORT`: where Prometheus reads the figures of a process.

    with MetricsEndpoint("127.0.0.1", 9404, process.readings, owner="the mirror") as metrics:
        print(metrics.url)

A broker, an agent and a flow have HTTP servers of their own, which serve more than figures.
"""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final

from headrace.model.error import ConfigError
from headrace.telemetry.http_server import HttpHandler, HttpServer
from headrace.telemetry.reading import Reading, collect, process_figures, render

_TEXT: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_MAX_CONNECTIONS: Final = 16


class MetricsEndpoint:
    """Listens once constructed, answers from `start` until `close`.

    It has no login: choose an address that only Prometheus reaches.

    Args:
        readings: returns what to read, once per scrape, in a thread of the server. Memory, CPU and
            open files of the process are added.
        owner: whose figures they are, for the sentence of an error.

    Raises:
        ConfigError: the address cannot be bound.
    """

    def __init__(
        self, host: str, port: int, readings: Callable[[], Iterable[Reading]], *, owner: str
    ) -> None:
        class Handler(HttpHandler):
            def do_GET(self) -> None:
                if self.path != "/metrics":
                    self.reply(404, "The figures are at /metrics.\n")
                else:
                    self.reply(200, render(collect(readings()) + process_figures()), _TEXT)

        try:
            self._http = HttpServer(
                host, port, Handler, name="metrics", max_connections=_MAX_CONNECTIONS
            )
        except OSError as error:
            raise ConfigError(
                f"{owner} cannot serve metrics on {host}:{port}: {error.strerror or error}; "
                "choose another place with --metrics HOST:PORT"
            ) from error

    @property
    def url(self) -> str:
        """Where the figures are."""
        return f"http://{self._http.address}/metrics"

    def start(self) -> None:
        """Answer requests."""
        self._http.start()

    def close(self) -> None:
        """Answer no more requests, and free the port."""
        self._http.close()

    def __enter__(self) -> "MetricsEndpoint":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
