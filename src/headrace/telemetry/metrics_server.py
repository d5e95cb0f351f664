"""`--metrics HOST:PORT`: the figures of a process, for Prometheus."""

from collections.abc import Sequence
from typing import Final

from headrace.model.error import ConfigError
from headrace.telemetry.http_server import HttpHandler, HttpServer
from headrace.telemetry.reading import Reading, collect, process_figures, render

_TEXT: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


class MetricsServer:
    """Listens once constructed. It has no login: choose an address that only Prometheus reaches.

    Args:
        what: who serves them, for the sentence of an error.

    Raises:
        ConfigError: the address cannot be bound.
    """

    def __init__(self, host: str, port: int, readings: Sequence[Reading], what: str) -> None:
        class Handler(HttpHandler):
            def do_GET(self) -> None:
                if self.path != "/metrics":
                    self.reply(404, "The figures are at /metrics.\n")
                else:
                    self.reply(200, render(collect(readings) + process_figures()), _TEXT)

        try:
            self._http = HttpServer(host, port, Handler, name="metrics", max_connections=16)
        except OSError as error:
            raise ConfigError(
                f"{what} cannot serve metrics on {host}:{port}: {error.strerror or error}; "
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
        """Answer no more requests."""
        self._http.close()
