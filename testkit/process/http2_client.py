"""A client of HTTP/2 that does what a test asks for, and nothing by itself."""

import asyncio
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
)
from h2.settings import SettingCodes

MIB: Final = 1 << 20
SECONDS: Final = 60


class Http2Client:
    """h2's client side on a connection; it reads only when a test asks for events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.events: list[Event] = []

    def begin(self, **settings: int) -> None:
        self.h2.initiate_connection()
        self.h2.update_settings({SettingCodes[name]: value for name, value in settings.items()})
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def request(self, path: str, body: bytes | None = None, **headers: str) -> int:
        """Send a head, and a body if there is one; else the stream stays open."""
        stream_id = self.h2.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "here")]
        self.h2.send_headers(stream_id, [*head, *headers.items()])
        if body is not None:
            self.h2.send_data(stream_id, body, end_stream=True)
        self.flush()
        return stream_id

    async def send_large(self, stream_id: int, body: bytes) -> None:
        while body:
            room = min(self.h2.local_flow_control_window(stream_id), 16_384, len(body))
            if room:
                self.h2.send_data(stream_id, body[:room])
                body = body[room:]
                self.flush()
            else:
                await self.read()
        self.h2.end_stream(stream_id)
        self.flush()

    async def read(self, *, acknowledge: bool = True) -> bool:
        """Take what comes next; return False at the end of the connection."""
        data = await asyncio.wait_for(self.reader.read(MIB), SECONDS)
        events = self.h2.receive_data(data)
        self.events += events
        for event in events:
            if isinstance(event, DataReceived) and acknowledge:
                assert event.flow_controlled_length is not None
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return bool(data)

    async def until(self, kind: type[Event], stream_id: int | None = None, **how: bool) -> Any:
        """Read until an event comes."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and stream_id in (None, getattr(event, "stream_id", 0)):
                    return event
            assert await self.read(**how), f"no {kind.__name__} in {self.events}"

    async def response(self, stream_id: int) -> tuple[str, bytes]:
        await self.until(StreamEnded, stream_id)
        head = await self.until(ResponseReceived, stream_id)
        return dict(head.headers)[":status"], self.body(stream_id)

    def body(self, stream_id: int) -> bytes:
        return b"".join(
            each.data or b""
            for each in self.events
            if isinstance(each, DataReceived) and each.stream_id == stream_id
        )

    async def ended(self) -> ErrorCodes | int | None:
        """Return why the server has ended the connection; None if it has just gone."""
        try:
            while await self.read():
                pass
        except ConnectionError:
            pass
        codes = [each.error_code for each in self.events if isinstance(each, ConnectionTerminated)]
        return codes[0] if codes else None
