"""The base class of sinks that send events to another agent."""

import socket
import ssl
import time
from abc import abstractmethod

from headrace.ingest.error import DeliveryFailed, IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.network.tls import CLIENT_TLS, client_tls
from headrace.ingest.settings import Setting, Settings, number, text
from headrace.ingest.sink import Sink

REMOTE_SETTINGS: tuple[Setting, ...] = (
    text("hostname", "The host of the next agent.", required=True),
    number("port", "The port of the next agent.", required=True, maximum=65_535),
    number("batch-size", "Events per batch.", 100, minimum=1),
    number("connect-timeout", "Timeout of a connection in milliseconds.", 20_000, minimum=1),
    number("request-timeout", "Timeout of an answer in milliseconds.", 20_000, minimum=1),
    number("reset-connection-interval", "Seconds until the sink reconnects; 0 is never.", 0),
    number("maxConnections", "Ignored: a sink has one.", None),
    number("maxIoWorkers", "Ignored.", None),
    number("connection-reset-interval", "Ignored.", None),
    *CLIENT_TLS,
)


class RemoteSink(Sink):
    """Connects when there are events to send, and again after every failure.

    To implement: `_connected` and `_send`.
    """

    BATCH_SETTING = "batch-size"

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._address = (settings.text("hostname"), settings.number("port"))
        self._tls: ssl.SSLContext | None = client_tls(settings)
        self._reset_seconds = settings.number("reset-connection-interval")
        self._connection: socket.socket | None = None
        self._connected_at = 0.0

    def stop(self) -> None:
        self._disconnect()

    def deliver(self, batch: EventBatch) -> None:
        where = f"{self._address[0]}:{self._address[1]}"
        try:
            self._connect()
            self._send(batch)
        except (OSError, IngestError) as error:
            self._disconnect()
            self.counters.add("ConnectionFailedCount")
            raise DeliveryFailed(f"events did not reach {where}: {error}") from error

    @abstractmethod
    def _connected(self, connection: socket.socket) -> None:
        """Use a new connection from now on."""

    @abstractmethod
    def _send(self, batch: EventBatch) -> None:
        """Send events, and return when the peer has confirmed them.

        Raises:
            IngestError, OSError: the peer has not confirmed them.
        """

    def _connect(self) -> None:
        if self._connection is not None:
            if (
                not self._reset_seconds
                or time.monotonic() - self._connected_at < self._reset_seconds
            ):
                return
            self._disconnect()
        seconds = self.settings.number("connect-timeout") / 1000
        connection = socket.create_connection(self._address, timeout=seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_hostname=self._address[0])
        connection.settimeout(self.settings.number("request-timeout") / 1000)
        self._connection, self._connected_at = connection, time.monotonic()
        self._connected(connection)
        self.counters.add("ConnectionCreatedCount")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self.counters.add("ConnectionClosedCount")
