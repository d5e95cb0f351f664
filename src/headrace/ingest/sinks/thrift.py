"""The thrift sink: events to the next agent, over Thrift."""

import socket
import struct
from typing import Any

from thriftpy2.thrift import TClient

from headrace.ingest.error import IngestError, ProtocolError
from headrace.ingest.event import EventBatch
from headrace.ingest.network.peer_stream import PeerStream
from headrace.ingest.network.thrift_protocol import (
    FLUME,
    MAX_FRAME_BYTES,
    THRIFT_SETTINGS,
    memory,
    protocol,
    protocol_of,
    to_events,
)
from headrace.ingest.settings import Settings
from headrace.ingest.sinks.remote import REMOTE_SETTINGS, RemoteSink

_LENGTH = struct.Struct(">i")


class ThriftSink(RemoteSink):
    """Sends events to a Thrift source, Flume's or ours."""

    SETTINGS = (*REMOTE_SETTINGS, *THRIFT_SETTINGS)

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._protocol = protocol_of(settings)
        self._stream: PeerStream | None = None

    def _connected(self, connection: socket.socket) -> None:
        self._stream = PeerStream(connection)

    def _send(self, batch: EventBatch) -> None:
        call = memory()
        # The protocol of the answer is set when there is an answer to read.
        client: Any = TClient(FLUME.ThriftSourceProtocol, protocol(self._protocol, call))
        client._send("appendBatch", events=to_events(batch))
        client._iprot = protocol(self._protocol, memory(self._exchange(call.getvalue())))
        try:
            status = client._recv("appendBatch")
        except Exception as error:
            raise ProtocolError(f"the peer's answer cannot be read: {error!r}") from error
        if status != FLUME.Status.OK:
            raise IngestError(f"the next agent answered {status}: its channel may be full")

    def _exchange(self, message: bytes) -> bytes:
        assert self._stream is not None
        self._stream.write(_LENGTH.pack(len(message)) + message)
        head = self._stream.read(_LENGTH.size)
        if not head:
            raise ProtocolError("the peer closed the connection before it answered")
        (size,) = _LENGTH.unpack(head)
        if not 0 < size <= MAX_FRAME_BYTES:
            raise ProtocolError(f"an answer claims {size} bytes")
        return self._stream.read(size)
