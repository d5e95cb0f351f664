"""Events from other agents, over Thrift."""

import socket
import struct
from typing import Any

from thriftpy2.thrift import TProcessor

from headrace.ingest.error import ChannelError, ProtocolError
from headrace.ingest.event import Batch
from headrace.ingest.listener import Listener
from headrace.ingest.peer_stream import PeerStream
from headrace.ingest.settings import Settings, flag, number, port, text
from headrace.ingest.source import Source
from headrace.ingest.thrift_protocol import (
    FLUME,
    MAX_FRAME_BYTES,
    PROTOCOLS,
    memory,
    protocol,
    to_batch,
)
from headrace.ingest.tls import SERVER_TLS, server_tls

_LENGTH = struct.Struct(">i")


class ThriftSource(Source):
    """Framed transport; a frame is read whole, within bounds, before Thrift sees it."""

    SETTINGS = (
        text("bind", "Which address to listen on.", required=True),
        port("Which port to listen on."),
        number("threads", "Most connections at once.", 1000, minimum=1),
        text("protocol", "compact or binary.", "compact", choices=PROTOCOLS),
        flag("kerberos", "Not done here.", False),
        *SERVER_TLS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        if settings.flag("kerberos"):
            raise settings.wrong("kerberos", "Kerberos is not done here: use ssl")
        self._protocol = settings.text("protocol")
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
        stream = PeerStream(connection)
        processor = TProcessor(FLUME.ThriftSourceProtocol, self)
        self.counters.add("OpenConnectionCount")
        try:
            while head := stream.read(_LENGTH.size):
                (size,) = _LENGTH.unpack(head)
                if not 0 < size <= MAX_FRAME_BYTES:
                    raise ProtocolError(f"a frame claims {size} bytes: is this framed Thrift?")
                stream.write(self._answer(processor, stream.read(size)))
        finally:
            self.counters.add("OpenConnectionCount", -1)

    def _answer(self, processor: TProcessor, message: bytes) -> bytes:
        out = memory()
        try:
            processor.process(
                protocol(self._protocol, memory(message)), protocol(self._protocol, out)
            )
        except Exception as error:  # whatever broken bytes make thriftpy2 raise
            raise ProtocolError(f"a peer's Thrift message cannot be read: {error!r}") from error
        answer: bytes = out.getvalue()
        return _LENGTH.pack(len(answer)) + answer

    # -- the interface: thriftpy2 calls these by their names

    def append(self, event: Any) -> int:
        self.counters.add("AppendReceivedCount")
        return self._take(to_batch([event]), "AppendAcceptedCount")

    def appendBatch(self, events: list[Any]) -> int:  # noqa: N802 - Flume's name
        self.counters.add("AppendBatchReceivedCount")
        return self._take(to_batch(events), "AppendBatchAcceptedCount")

    def _take(self, batch: Batch, accepted: str) -> int:
        try:
            if len(batch):
                self.deliver(batch)
        except ChannelError:
            return int(FLUME.Status.FAILED)
        self.counters.add(accepted)
        return int(FLUME.Status.OK)
