"""Serves the console with uvicorn, in the foreground or in a thread."""

import socket
from threading import Thread
from types import TracebackType
from typing import Final

import uvicorn

from headrace.console.app import console_app
from headrace.console.console_state import ConsoleState
from headrace.console.settings import ConsoleSettings
from headrace.model.error import ConfigError

_STOP_SECONDS: Final = 3
_MOST_CONNECTIONS: Final = 256


class ConsoleServer:
    """Listens once constructed; serves once `run` or `start` is called.

    Example:
        with ConsoleServer(ConsoleSettings(ClientSettings.of({}))) as console:
            print(console.url)

    Raises:
        ConfigError: the address cannot be bound, or needs a login.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        settings.validate()
        host, port = settings.listen.host, settings.listen.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ConfigError(
                f"the console cannot listen on {settings.listen}: {error.strerror or error}; "
                "choose another place with --listen HOST:PORT"
            ) from error
        bound: int = self._socket.getsockname()[1]
        shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{bound}/"
        self.state = ConsoleState.of(settings)
        self._server = uvicorn.Server(
            uvicorn.Config(
                console_app(self.state),
                log_level="warning",
                access_log=False,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="on",
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
        )
        self._thread: Thread | None = None

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; for the main thread."""
        self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Serve in a thread."""
        self._thread = Thread(target=self.run, name="console", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.state.stopping = True
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=30)
        self._socket.close()

    def __enter__(self) -> "ConsoleServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
