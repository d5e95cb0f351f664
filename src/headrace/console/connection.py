"""One HTTP/1.1 connection of the console.

Rule 1: an idle connection makes room for a new one. Without that, any client that reaches the
port could keep all users out with connections that say nothing, before any login.
"""

from typing import Final

from headrace.gateway.http.http1_connection import Http1Connection

MOST_CONNECTIONS: Final = 256


class ConsoleConnection(Http1Connection):
    """What uvicorn makes for each browser."""

    most_connections = MOST_CONNECTIONS

    def _may_be_read_slowly(self) -> bool:
        # Large answers come after the login, and a user's line may be slow.
        return True
