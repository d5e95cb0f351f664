"""The base classes of sources that listen on one TCP port."""

import socket
import ssl
from abc import ABC, abstractmethod

from headrace.ingest.error import ChannelError
from headrace.ingest.event import EventBatch
from headrace.ingest.network.tcp_server import DEFAULT_CONNECTIONS, TcpServer
from headrace.ingest.network.tls import SERVER_TLS, server_tls
from headrace.ingest.settings import Setting, Settings, number, port, text
from headrace.ingest.source import Source

LISTENING: tuple[Setting, ...] = (
    text("bind", "The address to listen on.", required=True),
    port("The port to listen on."),
)
HOP: tuple[Setting, ...] = (
    *LISTENING,
    number("threads", "Most connections at once.", DEFAULT_CONNECTIONS, minimum=1),
    *SERVER_TLS,
)


class ListeningSource(Source, ABC):
    """Serves each connection in a thread of its own, and counts open connections.

    To implement: `serve`.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        tls: ssl.SSLContext | None = None,
        max_connections: int = DEFAULT_CONNECTIONS,
    ) -> None:
        super().__init__(name, settings)
        self.listener = TcpServer(
            name,
            settings.text("bind"),
            settings.number("port"),
            self._serve,
            tls=tls,
            max_connections=max_connections,
        )

    def start(self) -> None:
        self.listener.start()

    def stop(self) -> None:
        self.listener.stop()

    def _serve(self, connection: socket.socket) -> None:
        self.counters.add("OpenConnectionCount")
        try:
            self.serve(connection)
        finally:
            self.counters.add("OpenConnectionCount", -1)

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """Read events from a connection, and return when the peer has closed its side."""


class HopSource(ListeningSource):
    """A source that other agents send events to; it answers whether they are in the channel."""

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(
            name,
            settings,
            tls=server_tls(settings),
            max_connections=settings.number("threads"),
        )

    def accept(self, batch: EventBatch, call: str) -> bool:
        """Deliver events. Return False if the peer must send them again.

        Args:
            call: Append or AppendBatch, for the counters.
        """
        self.counters.add(f"{call}ReceivedCount")
        try:
            if len(batch):
                self.deliver(batch)
        except ChannelError:
            return False
        self.counters.add(f"{call}AcceptedCount")
        return True
