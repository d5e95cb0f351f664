"""The avro source: events from other agents, over Avro RPC."""

import socket

from headrace.ingest.event import EventBatch
from headrace.ingest.network.avro_rpc import (
    AvroResponder,
    AvroStatus,
    answer,
    read_frame,
    write_frame,
)
from headrace.ingest.network.peer_stream import PeerStream
from headrace.ingest.settings import Settings, refused, text
from headrace.ingest.sources.listening import HOP, HopSource


class AvroSource(HopSource):
    """The next hop of Avro sinks and clients, Flume's and ours.

    It answers OK when the events are in the channel, and FAILED when they must be sent again.
    """

    SETTINGS = (
        *HOP,
        text("compression-type", "none or deflate.", "none", choices=("none", "deflate")),
        refused("ipFilter", "filter peers with the firewall"),
        refused("ipFilterRules", "filter peers with the firewall"),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._deflate = settings.text("compression-type") == "deflate"
        self._known: dict[bytes, bool] = {}

    def serve(self, connection: socket.socket) -> None:
        stream = PeerStream(connection, deflate=self._deflate)
        responder = AvroResponder(self._known)
        while (frame := read_frame(stream)) is not None:
            prefix, method, batch = responder.read(frame.message)
            status = None if batch is None else self._status(method, batch)
            write_frame(stream, frame.serial, answer(prefix, method, status))

    def _status(self, method: str, batch: EventBatch) -> AvroStatus:
        done = self.accept(batch, "AppendBatch" if method == "appendBatch" else "Append")
        return AvroStatus.OK if done else AvroStatus.FAILED
