"""Serves the registry with uvicorn: HTTP/1.1 and HTTP/2, by plain text or TLS."""

from collections.abc import Callable

import structlog
import uvicorn

from headrace.gateway.http.certificate import check_certificate
from headrace.gateway.http.connection import BoundedConnection
from headrace.gateway.http.web_server import WebServer, server_config
from headrace.gateway.registry.app import RegistryApp
from headrace.gateway.registry.settings import RegistrySettings

log = structlog.get_logger()


class RegistryServer(WebServer):
    """Listens once constructed; serves once `run` or `start` is called.

    Example:
        with RegistryServer(RegistrySettings(client=ClientSettings.of({}))) as server:
            SchemaRegistryClient({"url": server.url})

    Raises:
        ConfigError: the address cannot be bound, or a file cannot be used.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        check_certificate(settings.certificate, settings.certificate_key)
        super().__init__(
            settings.listen,
            owner="the registry",
            name="registry",
            tls=settings.certificate is not None,
        )
        self.app = RegistryApp(settings, self.port)
        self._server = uvicorn.Server(
            server_config(
                self.app,
                http=BoundedConnection,
                certificate=settings.certificate,
                certificate_key=settings.certificate_key,
            )
        )
        if settings.users is None:
            log.warning(
                "registry_without_login",
                listen=str(settings.listen),
                reachable="from this machine only" if settings.is_loopback else "from elsewhere",
            )

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM; for the main thread.

        Args:
            ready: called when the schemas are read, just before the first request is served.

        Raises:
            ConfigError: the topic cannot be used.
            ClientError: no broker can be reached.
        """
        try:
            self.app.service.start()
            ready()
            self._serve()
        finally:
            self.app.close()
