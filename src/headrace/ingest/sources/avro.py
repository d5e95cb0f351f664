"""Events from other agents, over Avro RPC."""

import socket

from headrace.ingest.avro_rpc import Responder, Status, answer, read_frame, write_frame
from headrace.ingest.error import ChannelError
from headrace.ingest.event import Batch
from headrace.ingest.listener import Listener
from headrace.ingest.peer_stream import PeerStream
from headrace.ingest.settings import Settings, flag, number, port, text
from headrace.ingest.source import Source
from headrace.ingest.tls import SERVER_TLS, server_tls


class AvroSource(Source):
    """The next hop of Flume's Avro sinks and clients, and of ours.

    OK means that the events are in the channel; FAILED that they are not and must come again.
    """

    SETTINGS = (
        text("bind", "Which address to listen on.", required=True),
        port("Which port to listen on."),
        number("threads", "Most connections at once.", 1000, minimum=1),
        text("compression-type", "none or deflate.", "none", choices=("none", "deflate")),
        flag("ipFilter", "Filter peers by address: not done here.", False),
        text("ipFilterRules", "Likewise.", None),
        *SERVER_TLS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        if settings.flag("ipFilter"):
            raise settings.wrong("ipFilter", "peers are not filtered here: use the firewall")
        self._deflate = settings.text("compression-type") == "deflate"
        self._known: dict[bytes, bool] = {}
        self.listener = Listener(
            name,
            settings.text("bind"),
            settings.number("port"),
            self._serve,
            tls=server_tls(settings),
            max_connections=settings.number("threads"),
        )

    def start(self) -> None:
        self.listener.start()

    def stop(self) -> None:
        self.listener.stop()

    def _serve(self, connection: socket.socket) -> None:
        self.counters.add("OpenConnectionCount")
        try:
            stream = PeerStream(connection, deflate=self._deflate)
            responder = Responder(self._known)
            while (frame := read_frame(stream)) is not None:
                prefix, method, batch = responder.read(frame.message)
                status = None if batch is None else self.take(method, batch)
                write_frame(stream, frame.serial, answer(prefix, method, status))
        finally:
            self.counters.add("OpenConnectionCount", -1)

    def take(self, method: str, batch: Batch) -> Status:
        kind = "AppendBatch" if method == "appendBatch" else "Append"
        self.counters.add(f"{kind}ReceivedCount")
        try:
            if len(batch):
                self.deliver(batch)
        except ChannelError:
            return Status.FAILED
        self.counters.add(f"{kind}AcceptedCount")
        return Status.OK
