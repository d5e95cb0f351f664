"""The thrift source: events from other agents, over Thrift."""

import socket
import struct
from typing import Any

from thriftpy2.thrift import TProcessor

from headrace.ingest.error import ProtocolError
from headrace.ingest.network.peer_stream import PeerStream
from headrace.ingest.network.thrift_protocol import (
    FLUME,
    MAX_FRAME_BYTES,
    THRIFT_SETTINGS,
    memory,
    protocol,
    protocol_of,
    to_batch,
)
from headrace.ingest.settings import Settings
from headrace.ingest.sources.listening import HOP, HopSource

_LENGTH = struct.Struct(">i")


class ThriftSource(HopSource):
    """Reads the framed transport. A frame is checked and read whole before thriftpy2 decodes it."""

    SETTINGS = (*HOP, *THRIFT_SETTINGS)

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._protocol = protocol_of(settings)

    def serve(self, connection: socket.socket) -> None:
        stream = PeerStream(connection)
        processor = TProcessor(FLUME.ThriftSourceProtocol, self)
        while head := stream.read(_LENGTH.size):
            (size,) = _LENGTH.unpack(head)
            if not 0 < size <= MAX_FRAME_BYTES:
                raise ProtocolError(f"a frame claims {size} bytes: is this framed Thrift?")
            stream.write(self._answer(processor, stream.read(size)))

    def _answer(self, processor: TProcessor, message: bytes) -> bytes:
        out = memory()
        try:
            processor.process(
                protocol(self._protocol, memory(message)), protocol(self._protocol, out)
            )
        except Exception as error:  # thriftpy2 raises many types for invalid bytes
            raise ProtocolError(f"a peer's Thrift message cannot be read: {error!r}") from error
        answer: bytes = out.getvalue()
        return _LENGTH.pack(len(answer)) + answer

    # -- the Thrift interface: thriftpy2 calls these methods

    def append(self, event: Any) -> int:
        return self._status([event], "Append")

    def appendBatch(self, events: list[Any]) -> int:  # noqa: N802 - Flume's name
        return self._status(events, "AppendBatch")

    def _status(self, events: list[Any], call: str) -> int:
        done = self.accept(to_batch(events), call)
        return int(FLUME.Status.OK if done else FLUME.Status.FAILED)
