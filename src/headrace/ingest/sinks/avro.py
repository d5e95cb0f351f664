"""The avro sink: events to the next agent, over Avro RPC."""

import socket

from headrace.ingest.error import IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.network.avro_rpc import AvroRequestor, AvroStatus
from headrace.ingest.network.peer_stream import PeerStream
from headrace.ingest.settings import Settings, number, text
from headrace.ingest.sinks.remote import REMOTE_SETTINGS, RemoteSink


class AvroSink(RemoteSink):
    """Sends events to an Avro source, Flume's or ours."""

    SETTINGS = (
        *REMOTE_SETTINGS,
        text("compression-type", "none or deflate.", "none", choices=("none", "deflate")),
        number("compression-level", "0 to 9.", 6, maximum=9),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._deflate = settings.text("compression-type") == "deflate"
        self._level = settings.number("compression-level")
        self._requestor: AvroRequestor | None = None

    def _connected(self, connection: socket.socket) -> None:
        stream = PeerStream(connection, deflate=self._deflate, level=self._level)
        self._requestor = AvroRequestor(stream)

    def _send(self, batch: EventBatch) -> None:
        assert self._requestor is not None
        status = self._requestor.append_batch(batch)
        if status is not AvroStatus.OK:
            raise IngestError(f"the next agent answered {status.name}: its channel may be full")
