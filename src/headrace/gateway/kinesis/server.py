"""Serves the gateway with uvicorn: HTTP/1.1 and HTTP/2, by plain text or TLS."""

from collections.abc import Callable

import structlog
import uvicorn

from headrace.gateway.http.certificate import check_certificate
from headrace.gateway.http.connection import BoundedConnection
from headrace.gateway.http.web_server import WebServer, server_config
from headrace.gateway.kinesis.app import KinesisApp
from headrace.gateway.kinesis.settings import KinesisSettings

log = structlog.get_logger()


class KinesisServer(WebServer):
    """Listens once constructed; serves once `run` or `start` is called.

    Example:
        with KinesisServer(KinesisSettings(client=ClientSettings.of({}))) as server:
            boto3.client("kinesis", endpoint_url=server.url)

    Raises:
        ConfigError: the address cannot be bound, or the certificate cannot be used.
    """

    def __init__(self, settings: KinesisSettings) -> None:
        check_certificate(settings.certificate, settings.certificate_key)
        super().__init__(
            settings.listen,
            owner="the Kinesis gateway",
            name="kinesis",
            tls=settings.certificate is not None,
        )
        self._app = KinesisApp(settings)
        self._server = uvicorn.Server(
            server_config(
                self._app,
                http=BoundedConnection,
                certificate=settings.certificate,
                certificate_key=settings.certificate_key,
            )
        )
        if not settings.keys:
            log.warning(
                "kinesis_accepts_any_signature",
                listen=str(settings.listen),
                reachable="from this machine only" if settings.is_loopback else "from elsewhere",
            )

    @property
    def metrics_url(self) -> str | None:
        """Where the figures of enhanced monitoring are, if `--metrics` was given."""
        return self._app.service.metrics_url

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM; for the main thread.

        Args:
            ready: called when the streams are read, just before the first request is served.

        Raises:
            ClientError: no broker can be reached.
        """
        self._app.start()
        try:
            ready()
            self._serve()
        finally:
            self._app.close()
