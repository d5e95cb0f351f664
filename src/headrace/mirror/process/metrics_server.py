"""`--metrics HOST:PORT`: the figures of a mirror, for Prometheus."""

from collections.abc import Sequence

from headrace.client.address import Address
from headrace.model.error import ConfigError
from headrace.telemetry.http_server import HttpHandler, HttpServer
from headrace.telemetry.reading import Reading, collect, process_figures, render

_TEXT = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


class MetricsServer:
    """Listens once constructed. It has no login: choose an address that only Prometheus reaches.

    Raises:
        ConfigError: the address cannot be bound.
    """

    def __init__(self, listen: Address, readings: Sequence[Reading]) -> None:
        class Handler(HttpHandler):
            def do_GET(self) -> None:
                if self.path != "/metrics":
                    self.reply(404, "The figures are at /metrics.\n")
                else:
                    self.reply(200, render(collect(readings) + process_figures()), _TEXT)

        try:
            self._http = HttpServer(
                listen.host, listen.port, Handler, name="mirror-metrics", max_connections=16
            )
        except OSError as error:
            raise ConfigError(
                f"the mirror cannot serve metrics on {listen}: {error.strerror or error}; "
                "choose another place with --metrics HOST:PORT"
            ) from error

    @property
    def url(self) -> str:
        return f"http://{self._http.address}/metrics"

    def start(self) -> None:
        self._http.start()

    def close(self) -> None:
        self._http.close()
