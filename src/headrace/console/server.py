"""Serves the console with uvicorn, in the foreground or in a thread."""

from collections.abc import Callable
from typing import Final

import uvicorn

from headrace.console.app import console_app
from headrace.console.connection import MOST_CONNECTIONS, ConsoleConnection
from headrace.console.console_state import ConsoleState
from headrace.console.settings import ConsoleSettings
from headrace.gateway.http.web_server import WebServer, server_config

_STOP_SECONDS: Final = 3
_IDLE_SECONDS: Final = 5


class ConsoleServer(WebServer):
    """Listens once constructed; serves once `run` or `start` is called.

    Example:
        with ConsoleServer(ConsoleSettings(ClientSettings.of({}))) as console:
            print(console.url)

    Raises:
        ConfigError: the address cannot be bound, or needs a login.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        settings.validate()
        super().__init__(settings.listen, owner="the console", name="console")
        self.url += "/"
        self.state = ConsoleState.of(settings)
        self._server = uvicorn.Server(
            server_config(
                console_app(self.state),
                http=ConsoleConnection,
                timeout_keep_alive=_IDLE_SECONDS,
                limit_concurrency=MOST_CONNECTIONS + 1,
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
        )

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM; for the main thread."""
        ready()
        self._serve()

    def stop(self) -> None:
        """Serve no more requests, and end those that wait for news."""
        self.state.stopping = True
        super().stop()
