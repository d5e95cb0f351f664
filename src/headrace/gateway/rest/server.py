"""Serves the proxy with uvicorn over HTTP/1.1."""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Final

import structlog
import uvicorn

from headrace.client.network.pool import ConnectionPool
from headrace.gateway.http.web_server import WebServer, server_config
from headrace.gateway.rest.app import RestApp
from headrace.gateway.rest.fast_connection import FastConnection
from headrace.gateway.rest.settings import RestSettings
from headrace.gateway.rest.websocket import (
    MOST_MESSAGE_BYTES,
    PING_SECONDS,
    PONG_SECONDS,
    RestWebSocket,
)

log = structlog.get_logger()

_START_SECONDS: Final = 30.0
_SWITCH_SECONDS: Final = 0.0005


class RestServer(WebServer):
    """Listens once constructed; serves once `run` or `start` is called.

    Example:
        with RestServer(RestSettings(client=ClientSettings.of({}))) as server:
            urlopen(f"{server.url}/v3/clusters")

    Raises:
        ConfigError: the address cannot be bound, or the file of users cannot be used.
    """

    def __init__(self, settings: RestSettings) -> None:
        super().__init__(settings.listen, owner="the REST proxy", name="rest")
        self._settings = settings
        self._server = uvicorn.Server(
            server_config(
                RestApp(settings, (settings.advertise or self.url).rstrip("/")),
                http=FastConnection,
                ws=RestWebSocket,
                ws_max_size=MOST_MESSAGE_BYTES,
                ws_ping_interval=PING_SECONDS,
                ws_ping_timeout=PONG_SECONDS,
                ws_per_message_deflate=False,
            )
        )
        if settings.users is not None and not settings.is_loopback:
            log.warning("rest_login_without_tls", listen=str(settings.listen))
        elif not settings.is_loopback:
            log.warning("rest_without_login", listen=str(settings.listen))

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM; for the main thread.

        Raises:
            ClientError: no broker can be reached.
        """
        with ConnectionPool(self._settings.client) as pool:
            pool.metadata(())
        # Requests wait for threads, and those for the interpreter: for less than Python's 5 ms.
        sys.setswitchinterval(_SWITCH_SECONDS)
        ready()
        self._serve()

    def start(self) -> None:
        """Serve in a thread; return when it serves.

        Raises:
            ClientError: no broker can be reached.
            TimeoutError: it does not serve within `_START_SECONDS`.
        """
        begun: Future[None] = Future()
        self._thread = Thread(
            target=self._run_in_thread, args=(begun,), name=self._name, daemon=True
        )
        self._thread.start()
        try:
            begun.result(_START_SECONDS)
        except BaseException:
            self._server.should_exit = True
            self._socket.close()
            raise

    def _run_in_thread(self, begun: "Future[None]") -> None:
        """Run, and report to `start` how that began."""
        try:
            self.run(lambda: begun.set_result(None))
        except Exception as error:
            if begun.done():
                log.exception("rest_stopped")
            else:
                begun.set_exception(error)
