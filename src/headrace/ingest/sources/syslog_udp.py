"""The syslogudp source: syslog over UDP."""

from headrace.ingest.event import EventBatch
from headrace.ingest.network.datagram_server import DatagramServer
from headrace.ingest.settings import Settings, number, port, text
from headrace.ingest.sources.syslog import SYSLOG_SETTINGS, SyslogSource


class SyslogUdpSource(SyslogSource):
    """Reads a message per datagram."""

    SETTINGS = (
        text("host", "The address to listen on.", "0.0.0.0", other_names=("bind",)),  # noqa: S104
        port("The port to listen on."),
        number("receiveBufferSize", "Bytes of the kernel's buffer.", 4 << 20, minimum=1024),
        *SYSLOG_SETTINGS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._parser = self.parser()
        self.server = DatagramServer(
            name,
            settings.text("host"),
            settings.number("port"),
            self._deliver_datagrams,
            settings.number("receiveBufferSize"),
        )

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def _deliver_datagrams(self, datagrams: list[tuple[bytes, str]]) -> None:
        batches = [
            self.batch_of(
                self._parser,
                [data.rstrip(b"\r\n\x00")[: self.event_size]],
                self.peer_headers(peer),
            )
            for data, peer in datagrams
        ]
        self.deliver_with_retries(EventBatch.join(batches))
