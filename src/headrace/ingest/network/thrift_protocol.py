"""Flume's Thrift interface for thriftpy2."""

import io
from typing import Any, Final

import thriftpy2
from thriftpy2.protocol import TBinaryProtocol, TCompactProtocol
from thriftpy2.transport import TMemoryBuffer

from headrace.ingest.error import ProtocolError
from headrace.ingest.event import EventBatch
from headrace.ingest.format.avro_event import MAX_HEADERS
from headrace.ingest.settings import Setting, Settings, refused, text

_INTERFACE = """
enum Status { OK = 0, FAILED = 1, ERROR = 2, UNKNOWN = 3 }
struct ThriftFlumeEvent { 1: required map<string, string> headers, 2: required binary body }
service ThriftSourceProtocol {
    Status append(1: ThriftFlumeEvent event),
    Status appendBatch(1: list<ThriftFlumeEvent> events),
}
"""
FLUME: Final[Any] = thriftpy2.load_fp(io.StringIO(_INTERFACE), "headrace_flume_thrift")
THRIFT_SETTINGS: Final[tuple[Setting, ...]] = (
    text("protocol", "compact or binary.", "compact", choices=("compact", "binary")),
    refused("kerberos", "use ssl"),
)
MAX_FRAME_BYTES: Final = 64 << 20


def protocol_of(settings: Settings) -> str:
    """Return the name of the protocol."""
    return settings.text("protocol")


# thriftpy2 has no type annotations for these.
_buffer: Any = TMemoryBuffer
_binary: Any = TBinaryProtocol
_compact: Any = TCompactProtocol


def memory(content: bytes = b"") -> Any:
    """Return a transport that reads and writes bytes in memory."""
    return _buffer(content)


def protocol(name: str, buffer: Any) -> Any:
    """Return the protocol of that name on a transport; Flume's default is compact."""
    return _binary(buffer) if name == "binary" else _compact(buffer)


def to_batch(events: list[Any]) -> EventBatch:
    """Return the events that a peer sent.

    Raises:
        ProtocolError: an event has too many headers.
    """
    if any(len(each.headers or ()) > MAX_HEADERS for each in events):
        raise ProtocolError(f"an event has more than {MAX_HEADERS} headers")
    return EventBatch(
        [_bytes(each.body) for each in events], [each.headers or {} for each in events]
    )


def to_events(batch: EventBatch) -> list[Any]:
    """Return events as Thrift's objects."""
    make = FLUME.ThriftFlumeEvent
    return [make(headers=event.headers, body=event.body) for event in batch]


def _bytes(body: bytes | str | None) -> bytes:
    """Return a body as bytes: some versions of thriftpy2 return binary data that is text as str."""
    if body is None:
        return b""
    return body.encode() if isinstance(body, str) else body
