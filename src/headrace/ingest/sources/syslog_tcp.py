"""The syslogtcp source: syslog over TCP."""

import socket

from headrace.ingest.format.syslog import SyslogFraming
from headrace.ingest.network.tcp_server import TcpServer
from headrace.ingest.network.tls import SERVER_TLS, server_tls
from headrace.ingest.settings import Settings, port, text
from headrace.ingest.sources.syslog import SYSLOG_SETTINGS, SyslogSource

_RECEIVE_BYTES = 256 * 1024


class SyslogTcpSource(SyslogSource):
    """Reads a message per line, or with counted octets. While a channel is full the sender
    waits."""

    SETTINGS = (
        text("host", "The address to listen on.", "0.0.0.0", other_names=("bind",)),  # noqa: S104
        port("The port to listen on."),
        *SYSLOG_SETTINGS,
        *SERVER_TLS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        host = settings.text("host")
        self.listener = TcpServer(
            name, host, settings.number("port"), self._serve, tls=server_tls(settings)
        )

    def start(self) -> None:
        self.listener.start()

    def stop(self) -> None:
        self.listener.stop()

    def _serve(self, connection: socket.socket) -> None:
        parser, framing = self.parser(), SyslogFraming(self.event_size)
        extra = self.peer_headers(connection.getpeername()[0])
        while data := connection.recv(_RECEIVE_BYTES):
            batch = self.batch_of(parser, framing.feed(data), extra)
            if len(batch) and not self.deliver_with_retries(batch):
                return
        batch = self.batch_of(parser, framing.finish(), extra)
        if len(batch):
            self.deliver_with_retries(batch)
