"""What clients may make this broker hold: connections, their requests, and their bytes."""

from dataclasses import dataclass

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.network.descriptor import connection_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The bounds of one acceptor and of each of its connections.

    Attributes:
        max_request_bytes: the largest request of a client that has authenticated, or need not.
        max_pending: Produce requests of one connection that may wait for their responses.
        max_partial_bytes: what requests that are still arriving may hold together.
        max_idle_ms: after so long without a request a connection is closed.
        max_connections: of all clients together.
        max_connections_per_host: from one address.
        backlog: connections that the kernel holds until they are accepted.
    """

    max_request_bytes: int
    max_pending: int
    max_partial_bytes: int
    max_idle_ms: int
    max_connections: int
    max_connections_per_host: int
    backlog: int

    @classmethod
    def of(cls, settings: BrokerSettings, *, file_capacity: int) -> "ConnectionLimits":
        """Return the limits that `settings` ask for, as far as there are descriptors.

        Args:
            file_capacity: how many descriptors are for open segments.

        Raises:
            ConfigError: there are not enough descriptors to serve any client.
        """
        return cls(
            max_request_bytes=settings["socket.request.max.bytes"],
            max_pending=settings["queued.max.requests"],
            max_partial_bytes=settings["queued.max.request.bytes"],
            max_idle_ms=settings["connections.max.idle.ms"],
            max_connections=min(int(settings["max.connections"]), connection_limit(file_capacity)),
            max_connections_per_host=settings["max.connections.per.ip"],
            backlog=settings["socket.listen.backlog.size"],
        )
