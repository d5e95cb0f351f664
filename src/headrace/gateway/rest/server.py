"""Serves the proxy with uvicorn over HTTP/1.1."""

import socket
import sys
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from types import TracebackType
from typing import Final

import structlog
import uvicorn

from headrace.client.network.pool import ConnectionPool
from headrace.gateway.http.evictable_connection import IDLE_SECONDS, MOST_CONNECTIONS
from headrace.gateway.rest.app import RestApp
from headrace.gateway.rest.fast_connection import FastConnection
from headrace.gateway.rest.settings import RestSettings
from headrace.gateway.rest.websocket import (
    MOST_MESSAGE_BYTES,
    PING_SECONDS,
    PONG_SECONDS,
    RestWebSocket,
)
from headrace.model.error import ConfigError

log = structlog.get_logger()

_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5
_SWITCH_SECONDS: Final = 0.0005


class RestServer:
    """Listens once constructed; serves once `run` or `start` is called.

    Example:
        with RestServer(RestSettings(client=ClientSettings.of({}))) as server:
            urlopen(f"{server.url}/v3/clusters")

    Raises:
        ConfigError: the address cannot be bound, or the file of users cannot be used.
    """

    def __init__(self, settings: RestSettings) -> None:
        host, port = settings.listen
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ConfigError(
                f"the REST proxy cannot listen on {settings.listen}: {error.strerror or error}; "
                "choose another place with --listen HOST:PORT"
            ) from error
        # uvicorn writes head and body apart: the body would wait 40 ms for the client's ACK.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound: int = self._socket.getsockname()[1]
        shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{bound}"
        self._settings = settings
        config = uvicorn.Config(
            RestApp(settings, (settings.advertise or self.url).rstrip("/")),
            log_level="warning",
            access_log=False,
            loop="asyncio",
            http=FastConnection,
            ws=RestWebSocket,
            ws_max_size=MOST_MESSAGE_BYTES,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PONG_SECONDS,
            ws_per_message_deflate=False,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            limit_concurrency=MOST_CONNECTIONS + 1,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread: Thread | None = None
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
        self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Serve in a thread; return when it serves.

        Raises:
            ClientError: no broker can be reached.
            TimeoutError: it does not serve within `_START_SECONDS`.
        """
        begun: Future[None] = Future()
        self._thread = Thread(target=self._serve, args=(begun,), name="rest", daemon=True)
        self._thread.start()
        try:
            begun.result(_START_SECONDS)
        except BaseException:
            self._server.should_exit = True
            self._socket.close()
            raise

    def _serve(self, begun: "Future[None]") -> None:
        """Run, and tell `start` how that began."""
        try:
            self.run(lambda: begun.set_result(None))
        except Exception as error:
            if begun.done():
                log.exception("rest_stopped")
            else:
                begun.set_exception(error)

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=30)
        self._socket.close()

    def __enter__(self) -> "RestServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
