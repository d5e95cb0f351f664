"""How many requests all HTTP/2 connections of a server run together. For one event loop.

One HTTP/2 connection carries many requests, so connections alone bound little. Requests over
HTTP/2 are fewer than those that uvicorn accepts: however many there are, HTTP/1.1 is served.

Rule 1: a connection counts as known when one of its requests has succeeded: its client has a key,
or none is needed. Others together have half of the requests: strangers do not keep clients out.
Rule 2: a few strangers may use that half as they like. When half of it is used, each of their
connections has `_FEW` requests: it takes many of them to keep other strangers out.
"""

from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from uvicorn.server import ServerState

MOST_REQUESTS: Final = 512
_MOST_OF_STRANGERS: Final = MOST_REQUESTS // 2
_CROWD: Final = _MOST_OF_STRANGERS // 2
_FEW: Final = 8


class RequestLimit:
    """The requests that run.

    Example:
        limit = RequestLimit.of(server_state)
        if limit.allows(running_here, known=False):
            limit.begin(known=False)
            ...
            limit.end(known=False)
    """

    _by_server: ClassVar["WeakKeyDictionary[ServerState, RequestLimit]"] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._running = 0
        self._of_strangers = 0

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

    def begin(self, *, known: bool) -> None:
        """Count a request."""
        self._running += 1
        self._of_strangers += not known

    def end(self, *, known: bool) -> None:
        """Count it no more; `known` as it was when it began."""
        self._running -= 1
        self._of_strangers -= not known
