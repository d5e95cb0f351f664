"""Serves the gateway with uvicorn: HTTP/1.1 and HTTP/2, by plain text or TLS."""

import socket
from collections.abc import Callable
from threading import Thread
from types import TracebackType
from typing import Final

import structlog
import uvicorn

from headrace.gateway.http.certificate import check_certificate
from headrace.gateway.http.connection import BoundedConnection
from headrace.gateway.http.evictable_connection import IDLE_SECONDS, MOST_CONNECTIONS
from headrace.gateway.kinesis.app import KinesisApp
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.model.error import ConfigError

log = structlog.get_logger()

_STOP_SECONDS: Final = 5


class KinesisServer:
    """Listens once constructed; serves once `run` or `start` is called.

    Example:
        with KinesisServer(KinesisSettings(client=ClientSettings.of({}))) as server:
            boto3.client("kinesis", endpoint_url=server.url)

    Raises:
        ConfigError: the address cannot be bound, or the certificate cannot be used.
    """

    def __init__(self, settings: KinesisSettings) -> None:
        check_certificate(settings.certificate, settings.certificate_key)
        host, port = settings.listen
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ConfigError(
                f"the gateway cannot listen on {settings.listen}: {error.strerror or error}; "
                "choose another place with --listen HOST:PORT"
            ) from error
        # uvicorn writes head and body apart: the body would wait 40 ms for the client's ACK.
        # asyncio sets it only for sockets that name their protocol, which `create_server` does not.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound: int = self._socket.getsockname()[1]
        shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104
        scheme = "http" if settings.certificate is None else "https"
        self.url = f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{bound}"
        self._app = KinesisApp(settings)
        config = uvicorn.Config(
            self._app,
            log_level="warning",
            access_log=False,
            loop="asyncio",
            http=BoundedConnection,
            ws="none",
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            limit_concurrency=MOST_CONNECTIONS + 1,
            timeout_graceful_shutdown=_STOP_SECONDS,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.certificate_key,
        )
        config.load()
        if config.ssl is not None:
            config.ssl.set_alpn_protocols(["h2", "http/1.1"])
        self._server = uvicorn.Server(config)
        self._thread: Thread | None = None
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
            self._server.run(sockets=[self._socket])
        finally:
            self._app.close()

    def start(self) -> None:
        """Serve in a thread."""
        self._thread = Thread(target=self.run, name="kinesis", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=30)
        self._socket.close()

    def __enter__(self) -> "KinesisServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
