"""The netcatudp source: datagrams of text."""

from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.network.datagram_server import DatagramServer
from headrace.ingest.settings import Settings, number, port, text
from headrace.ingest.source import Source


class NetcatUdpSource(Source):
    """Each datagram is an event, without line feeds at its end."""

    SETTINGS = (
        text("bind", "The address to listen on.", required=True),
        port("The port to listen on."),
        text("remoteAddressHeader", "The header for the sender's address."),
        number("receiveBufferSize", "Bytes of the kernel's buffer.", 4 << 20, minimum=1024),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._header = settings.optional("remoteAddressHeader")
        self.server = DatagramServer(
            name,
            settings.text("bind"),
            settings.number("port"),
            self._deliver_datagrams,
            settings.number("receiveBufferSize"),
        )

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def _deliver_datagrams(self, datagrams: list[tuple[bytes, str]]) -> None:
        bodies = [data.rstrip(b"\r\n") for data, _ in datagrams]
        headers: list[Headers] = [
            {self._header: peer} if self._header else {} for _, peer in datagrams
        ]
        self.deliver_with_retries(EventBatch(bodies, headers))
