"""How many requests all HTTP/2 connections of a server run together. For one event loop.

One HTTP/2 connection carries many requests, so connections alone bound little. Requests over
HTTP/2 are fewer than those that uvicorn accepts: however many there are, HTTP/1.1 is served.

Rule 1: a connection counts as known when one of its requests has succeeded: its client has logged
in, or needs no login. Others together have half of the requests: strangers do not keep clients out.
Rule 2: a few strangers may use that half as they like. When half of it is used, each of their
connections has `_FEW` requests: it takes many of them to keep other strangers out.
Rule 3: when all of it is used, a new stranger's first request takes the place of the connection
that has been busy longest, if that is longer than `_PATIENCE_SECONDS`: the first answer to a client
takes milliseconds, and what takes seconds is sent slowly or not read.
"""

from typing import ClassVar, Final, Protocol
from weakref import WeakKeyDictionary

from uvicorn.server import ServerState

MOST_REQUESTS: Final = 512
_MOST_OF_STRANGERS: Final = MOST_REQUESTS // 2
_CROWD: Final = _MOST_OF_STRANGERS // 2
_FEW: Final = 8
_PATIENCE_SECONDS: Final = 1.0
_LEAVING: Final = 64
"""More of strangers' requests for a moment: those of connections that are being closed."""


class Stranger(Protocol):
    """A connection none of whose requests has succeeded."""

    def abort(self) -> None: ...


class RequestLimit:
    """The requests that run.

    Example:
        limit = RequestLimit.of(server_state)
        if limit.allows(running_here, known=False) or limit.make_room(running_here, now):
            limit.begin(connection, now, known=False)
            ...
            limit.end(known=False)
        limit.forget(connection)
    """

    _by_server: ClassVar["WeakKeyDictionary[ServerState, RequestLimit]"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._running = 0
        self._of_strangers = 0
        self._busy_since: dict[Stranger, float] = {}

    @classmethod
    def of(cls, server: ServerState) -> "RequestLimit":
        """Return what the connections of a server share."""
        return cls._by_server.setdefault(server, cls())

    def allows(self, running_here: int, *, known: bool) -> bool:
        """Return whether a connection may run one more."""
        if self._running >= MOST_REQUESTS:
            return False
        if known or self._of_strangers < _CROWD:
            return True
        return self._of_strangers < _MOST_OF_STRANGERS and running_here < _FEW

    def make_room(self, running_here: int, now: float) -> bool:
        """Close the stranger's connection that has been busy longest, for another stranger.

        Returns:
            Whether the other one may begin its first request; not that it needs no more.
        """
        most = min(
            MOST_REQUESTS - self._running, _MOST_OF_STRANGERS + _LEAVING - self._of_strangers
        )
        if running_here or most <= 0:
            return False
        for stranger, since in self._busy_since.items():  # the first one is the oldest
            if now - since < _PATIENCE_SECONDS:
                return False
            del self._busy_since[stranger]
            stranger.abort()
            return True
        return False

    def begin(self, connection: Stranger, now: float, *, known: bool) -> None:
        """Count a request."""
        self._running += 1
        if not known:
            self._of_strangers += 1
            self._busy_since.setdefault(connection, now)

    def forget(self, connection: Stranger) -> None:
        """Note that a connection runs no request, or is no stranger's any more."""
        self._busy_since.pop(connection, None)

    def end(self, *, known: bool) -> None:
        """Count it no more; `known` as it was when it began."""
        self._running -= 1
        self._of_strangers -= not known
