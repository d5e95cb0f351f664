"""One request on its way through a handler."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from headrace.broker.network.connection import Connection
from headrace.wire.request import Request
from headrace.wire.upgrade import upgrade

Newest = TypeVar("Newest")


@dataclass(slots=True)
class Call:
    """A request and the connection it came over. Handlers return the fields of its response.

    The body may hold views into the receive buffer: a handler that waits copies them first.
    """

    connection: Connection
    request: Request

    @property
    def version(self) -> int:
        return self.request.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.request.header.client_id

    @property
    def client_host(self) -> str:
        """The client's address behind a slash, as Kafka writes it into group members."""
        return f"/{self.connection.peer_host}"

    @property
    def principal(self) -> str:
        return self.connection.principal

    @property
    def body(self) -> Any:
        """The request, in the version that the client sent."""
        return self.request.body

    def read(self, newest: type[Newest]) -> Newest:
        """Return the request in the shape of the newest version."""
        return upgrade(self.request.body, newest)


def milliseconds(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
