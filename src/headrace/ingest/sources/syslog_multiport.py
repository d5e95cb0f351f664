"""The multiport_syslogtcp source: syslog over TCP on several ports."""

import socket
from functools import partial

from headrace.ingest.format.syslog import SyslogFraming
from headrace.ingest.network.tcp_server import TcpServer
from headrace.ingest.network.tls import SERVER_TLS, server_tls
from headrace.ingest.settings import Settings, number, prefix, text
from headrace.ingest.sources.syslog import SYSLOG_SETTINGS, SyslogSource


class SyslogMultiportSource(SyslogSource):
    """Works as `syslogtcp` on several ports; a header can name the port."""

    SETTINGS = (
        text("host", "The address to listen on.", "0.0.0.0", other_names=("bind",)),  # noqa: S104
        text("ports", "The ports to listen on, separated by white space.", required=True),
        text("portHeader", "The header for the port that received the message."),
        number("batchSize", "Most events in one transaction.", 100, minimum=1),
        number("readBufferSize", "Bytes to read at once.", 262_144, minimum=1, maximum=1 << 26),
        number("readBufferBytes", "Ignored: use readBufferSize.", None, minimum=1),
        number("numProcessors", "Ignored: every connection has a thread.", None),
        text("charset.default", "Ignored: bodies are bytes and stay unchanged.", "UTF-8"),
        prefix("charset", "Ignored: bodies are bytes."),
        *SYSLOG_SETTINGS,
        *SERVER_TLS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        words = settings.words("ports")
        if not words or not all(word.isdigit() and int(word) < 65_536 for word in words):
            raise settings.wrong(
                "ports", f"ports cannot be {settings.text('ports')!r}: write ports such as 514 601"
            )
        self._header = settings.optional("portHeader")
        self._size = settings.number("readBufferSize")
        self._batch = settings.number("batchSize")
        host = settings.text("host")
        tls = server_tls(settings)
        self.listeners = [
            TcpServer(name, host, int(word), partial(self._serve, word), tls=tls) for word in words
        ]

    def start(self) -> None:
        started: list[TcpServer] = []
        try:
            for listener in self.listeners:
                listener.start()
                started.append(listener)
        except Exception:
            for listener in started:
                listener.stop()
            raise

    def stop(self) -> None:
        for listener in self.listeners:
            listener.stop()

    def _serve(self, port: str, connection: socket.socket) -> None:
        parser, framing = self.parser(), SyslogFraming(self.event_size)
        extra = self.peer_headers(connection.getpeername()[0])
        if self._header:
            extra[self._header] = port
        open_stream = True
        while open_stream:
            data = connection.recv(self._size)
            open_stream = bool(data)
            messages = framing.feed(data) if data else framing.finish()
            for piece in self.batch_of(parser, messages, extra).pieces(self._batch):
                if len(piece) and not self.deliver_with_retries(piece):
                    return
