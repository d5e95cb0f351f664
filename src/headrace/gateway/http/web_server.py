"""What the servers of gateways and of the console share: a socket, uvicorn on it, and a thread."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

import uvicorn

from headrace.client.address import Address
from headrace.gateway.http.evictable_connection import IDLE_SECONDS, MOST_CONNECTIONS
from headrace.model.error import ConfigError

_STOP_SECONDS: Final = 5
_JOIN_SECONDS: Final = 30
_EVERY_HOST: Final = ("", "0.0.0.0", "::")  # noqa: S104


class WebServer(ABC):
    """Listens once constructed; serves once `run` or `start` is called.

    A subclass sets `_server` in its constructor, to a server with a `server_config`, and defines
    `run`. The constructor here comes first, because an app may have to know its address.

    Attributes:
        url: where clients on this machine reach it.
        port: where it listens, also if the kernel has chosen the port.

    Args:
        owner: what listens, for the sentence of an error.
        name: of the thread.
        tls: whether the URL begins with https.

    Raises:
        ConfigError: the address cannot be bound.
    """

    _server: uvicorn.Server

    def __init__(self, listen: Address, *, owner: str, name: str, tls: bool = False) -> None:
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        try:
            self._socket = socket.create_server(listen, family=family)
        except OSError as error:
            raise ConfigError(
                f"{owner} cannot listen on {listen}: {error.strerror or error}; "
                "choose another place with --listen HOST:PORT"
            ) from error
        # uvicorn writes head and body apart: the body would wait 40 ms for the client's ACK.
        # asyncio sets it only for sockets that name their protocol, which `create_server` does not.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._socket.getsockname()[1]
        shown = "127.0.0.1" if listen.host in _EVERY_HOST else listen.host
        self.url = f"{'https' if tls else 'http'}://{Address(shown, self.port)}"
        self._name = name
        self._thread: Thread | None = None

    @abstractmethod
    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM; for the main thread.

        Args:
            ready: called just before the first request is served.
        """

    def start(self) -> None:
        """Serve in a thread."""
        self._thread = Thread(target=self.run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Serve no more requests, and free the port."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=_JOIN_SECONDS)
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        """Serve until the server is asked to exit."""
        self._server.run(sockets=[self._socket])


def server_config(
    app: Any,
    *,
    http: type[Any] | str,
    certificate: Path | None = None,
    certificate_key: Path | None = None,
    **options: Any,
) -> uvicorn.Config:
    """Return how uvicorn serves an app: without access log, and with bounded connections.

    Args:
        http: what serves a connection: a class, or one of uvicorn's names.
        certificate, certificate_key: PEM files, for TLS.
        options: further ones of uvicorn's, which take precedence.
    """
    config = uvicorn.Config(
        app,
        http=http,
        **{
            "log_level": "warning",
            "access_log": False,
            "loop": "asyncio",
            "ws": "none",
            "lifespan": "on",
            "server_header": False,
            "proxy_headers": False,
            "timeout_keep_alive": IDLE_SECONDS,
            "limit_concurrency": MOST_CONNECTIONS + 1,
            "timeout_graceful_shutdown": _STOP_SECONDS,
            "ssl_certfile": certificate,
            "ssl_keyfile": certificate_key,
            **options,
        },
    )
    if certificate is not None:
        config.load()
        assert config.ssl is not None
        config.ssl.set_alpn_protocols(["h2", "http/1.1"])
    return config
