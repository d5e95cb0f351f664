"""Flume's Thrift interface, for thriftpy2."""

import io
from typing import Any, Final

import thriftpy2
from thriftpy2.protocol import TBinaryProtocol, TCompactProtocol
from thriftpy2.transport import TMemoryBuffer

from headrace.ingest.error import ProtocolError
from headrace.ingest.event import Batch
from headrace.ingest.format.avro_event import MAX_HEADERS
from headrace.ingest.settings import Setting, Settings, flag, text

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
    flag("kerberos", "Not done here.", False),
)
MAX_FRAME_BYTES: Final = 64 << 20


def protocol_of(settings: Settings) -> str:
    """
    Raises:
        SettingError: it asks for Kerberos.
    """
    if settings.flag("kerberos"):
        raise settings.wrong("kerberos", "Kerberos is not done here: use ssl")
    return settings.text("protocol")


# thriftpy2's own annotations leave these open.
_buffer: Any = TMemoryBuffer
_binary: Any = TBinaryProtocol
_compact: Any = TCompactProtocol


def memory(content: bytes = b"") -> Any:
    """A transport that is nothing but bytes."""
    return _buffer(content)


def protocol(name: str, buffer: Any) -> Any:
    """Compact is Flume's default."""
    return _binary(buffer) if name == "binary" else _compact(buffer)


def to_batch(events: list[Any]) -> Batch:
    """
    Raises:
        ProtocolError: an event with more headers than any event has.
    """
    if any(len(each.headers or ()) > MAX_HEADERS for each in events):
        raise ProtocolError(f"an event has more than {MAX_HEADERS} headers")
    return Batch([_bytes(each.body) for each in events], [each.headers or {} for each in events])


def to_events(batch: Batch) -> list[Any]:
    make = FLUME.ThriftFlumeEvent
    return [make(headers=event.headers, body=event.body) for event in batch]


def _bytes(body: bytes | str | None) -> bytes:
    """Some versions of thriftpy2 decode a binary that happens to be text."""
    if body is None:
        return b""
    return body.encode() if isinstance(body, str) else body
