"""What sinks that talk to another agent have in common."""

import socket
import ssl
import time
from abc import abstractmethod

from headrace.ingest.error import DeliveryFailed, IngestError
from headrace.ingest.event import Batch
from headrace.ingest.network.tls import CLIENT_TLS, client_tls
from headrace.ingest.settings import Setting, Settings, number, text
from headrace.ingest.sink import Sink

REMOTE_SETTINGS: tuple[Setting, ...] = (
    text("hostname", "Where the next agent is.", required=True),
    number("port", "Its port.", required=True, maximum=65_535),
    number("batch-size", "Events sent at once.", 100, minimum=1),
    number("connect-timeout", "Milliseconds to connect in.", 20_000, minimum=1),
    number("request-timeout", "Milliseconds to wait for an answer.", 20_000, minimum=1),
    number("reset-connection-interval", "Seconds until we connect anew; 0 is never.", 0),
    number("maxConnections", "Has no meaning here: a sink has one.", None),
    number("maxIoWorkers", "Has no meaning here.", None),
    number("connection-reset-interval", "Has no meaning here.", None),
    *CLIENT_TLS,
)


class RemoteSink(Sink):
    """Connects when there is something to send, and anew after every failure.

    To implement: `_connected`, called with a new connection, and `_send`.
    """

    BATCH_SETTING = "batch-size"

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._address = (settings.text("hostname"), settings.number("port"))
        self._tls: ssl.SSLContext | None = client_tls(settings)
        self._reset_seconds = settings.number("reset-connection-interval")
        self._connection: socket.socket | None = None
        self._since = 0.0

    def stop(self) -> None:
        self._disconnect()

    def deliver(self, batch: Batch) -> None:
        where = f"{self._address[0]}:{self._address[1]}"
        try:
            self._connect()
            self._send(batch)
        except (OSError, IngestError) as error:
            self._disconnect()
            self.counters.add("ConnectionFailedCount")
            raise DeliveryFailed(f"events did not reach {where}: {error}") from error

    @abstractmethod
    def _connected(self, connection: socket.socket) -> None: ...

    @abstractmethod
    def _send(self, batch: Batch) -> None:
        """Return when the peer has them.

        Raises:
            IngestError, OSError: it does not.
        """

    def _connect(self) -> None:
        if self._connection is not None:
            if not self._reset_seconds or time.monotonic() - self._since < self._reset_seconds:
                return
            self._disconnect()
        seconds = self.settings.number("connect-timeout") / 1000
        connection = socket.create_connection(self._address, timeout=seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_hostname=self._address[0])
        connection.settimeout(self.settings.number("request-timeout") / 1000)
        self._connection, self._since = connection, time.monotonic()
        self._connected(connection)
        self.counters.add("ConnectionCreatedCount")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self.counters.add("ConnectionClosedCount")
