"""What the sources that listen on one TCP port have in common."""

import socket
import ssl
from abc import ABC, abstractmethod

from headrace.ingest.error import ChannelError
from headrace.ingest.event import Batch
from headrace.ingest.network.tcp_server import DEFAULT_CONNECTIONS, TcpServer
from headrace.ingest.network.tls import SERVER_TLS, server_tls
from headrace.ingest.settings import Setting, Settings, number, port, text
from headrace.ingest.source import Source

LISTENING: tuple[Setting, ...] = (
    text("bind", "Which address to listen on.", required=True),
    port("Which port to listen on."),
)
HOP: tuple[Setting, ...] = (
    *LISTENING,
    number("threads", "Most connections at once.", DEFAULT_CONNECTIONS, minimum=1),
    *SERVER_TLS,
)


class ListeningSource(Source, ABC):
    """Serves each connection in a thread of its own, and counts those that are open.

    To implement: `serve`, which returns when the peer is done.
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
    def serve(self, connection: socket.socket) -> None: ...


class HopSource(ListeningSource):
    """Where other agents send their events, and wait for what became of them."""

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(
            name,
            settings,
            tls=server_tls(settings),
            max_connections=settings.number("threads"),
        )

    def take(self, batch: Batch, call: str) -> bool:
        """Whether the events are in the channel; if not, they must come again.

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
