"""What all connections have in common: limits, and that an idle one makes room for a new one."""

from abc import ABC, abstractmethod
from collections.abc import MutableSet
from typing import Any, Final

HEAD_SECONDS: Final = 10.0
WRITE_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 75
MOST_CONNECTIONS: Final = 1024


class EvictableConnection(ABC):
    """A connection, over HTTP/1.1 or HTTP/2, that is closed for a new one while it is idle."""

    @property
    @abstractmethod
    def idle_since(self) -> float | None:
        """When its last response was with the client; None while a request runs."""

    @abstractmethod
    def abort(self) -> None:
        """Close it at once, whatever it has to send."""


def close_longest_idle(connections: MutableSet[Any], newcomer: EvictableConnection) -> None:
    """Close the connection that has been idle longest, if one is, to make room for a new one."""
    idle = [
        (since, each)
        for each in connections
        if isinstance(each, EvictableConnection)
        and each is not newcomer
        and (since := each.idle_since) is not None
    ]
    if idle:
        _, oldest = min(idle, key=lambda pair: pair[0])
        connections.discard(oldest)
        oldest.abort()
