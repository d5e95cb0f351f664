"""Avro RPC as Flume's agents use it: Netty's frames, the handshake, the calls.

A frame is a serial number (int32), a number of buffers (int32), and each buffer after its length
(int32); the buffers together are the message. The first message of a connection begins with a
handshake, in which both sides send the MD5 of their protocol. If the server does not know the
client's protocol, the client sends its text, and the other way round. A call is a map of metadata,
the name of a method and its arguments; an answer is a map, a byte that is 0 for a result and 1 for
an error, and the result.

All I/O goes through the given stream.
"""

import hashlib
import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.ingest.error import ProtocolError
from headrace.ingest.event import EventBatch
from headrace.ingest.format.avro_event import SCHEMA, AvroInput, encode_long
from headrace.ingest.format.event_array import read_events, write_events
from headrace.ingest.network.peer_stream import PeerStream

PROTOCOL: Final = json.dumps(
    {
        "protocol": "AvroSourceProtocol",
        "namespace": "org.apache.flume.source.avro",
        "types": [
            {"type": "enum", "name": "Status", "symbols": ["OK", "FAILED", "UNKNOWN"]},
            SCHEMA,
        ],
        "messages": {
            "append": {
                "request": [{"name": "event", "type": "AvroFlumeEvent"}],
                "response": "Status",
            },
            "appendBatch": {
                "request": [
                    {"name": "events", "type": {"type": "array", "items": "AvroFlumeEvent"}}
                ],
                "response": "Status",
            },
        },
    }
).encode()
PROTOCOL_HASH: Final = hashlib.md5(PROTOCOL, usedforsecurity=False).digest()

MAX_MESSAGE_BYTES: Final = 64 << 20
_MAX_BUFFERS = 1 << 16
_PAIR = struct.Struct(">ii")
_ONE = struct.Struct(">i")
_HASH_BYTES = 16
# A server remembers this many protocols of clients; Flume has had two.
_MAX_PROTOCOLS = 64


class HandshakeMatch(IntEnum):
    """The result of a handshake."""

    BOTH = 0
    CLIENT = 1
    NONE = 2


class AvroStatus(IntEnum):
    """What the server did with the events."""

    OK = 0
    FAILED = 1
    UNKNOWN = 2


@dataclass(frozen=True, slots=True)
class AvroFrame:
    """A message, and the serial number that its answer repeats."""

    serial: int
    message: bytes


def read_frame(stream: PeerStream) -> AvroFrame | None:
    """Return the next frame, or None at the end of the stream.

    Raises:
        ProtocolError: the frame has too many buffers or bytes, or is incomplete.
    """
    head = stream.read(_PAIR.size)
    if not head:
        return None
    serial, buffers = _PAIR.unpack(head)
    if not 0 <= buffers <= _MAX_BUFFERS:
        raise ProtocolError(f"a frame claims {buffers} buffers: is this Avro?")
    parts = []
    total = 0
    for _ in range(buffers):
        (size,) = _ONE.unpack(stream.read(_ONE.size) or b"\xff" * 4)
        total += size
        if size < 0 or total > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a frame has more than {MAX_MESSAGE_BYTES} bytes")
        parts.append(stream.read(size) if size else b"")
        if size and not parts[-1]:
            raise ProtocolError("the peer closed the connection in the middle of a frame")
    return AvroFrame(serial, b"".join(parts))


def write_frame(stream: PeerStream, serial: int, *message: bytes | memoryview) -> None:
    """Write a message, whose parts follow each other, as a frame with one buffer."""
    size = sum(map(len, message))
    stream.write(b"".join((_PAIR.pack(serial, 1), _ONE.pack(size), *message)))


class AvroResponder:
    """The server side of one connection.

    Args:
        known: the hashes of client protocols, and whether they are compatible; shared between
            connections.
    """

    def __init__(self, known: dict[bytes, bool]) -> None:
        self._known = known
        self._connected = False

    def read(self, message: bytes) -> tuple[bytes, str, EventBatch | None]:
        """Return the handshake bytes of the answer, the method, and its events.

        The events are None if the client must first send its protocol, or pings.
        """
        source = AvroInput(message)
        prefix = b""
        if not self._connected:
            prefix = self._handshake(source)
            if not self._connected:
                return prefix, "", None
        _skip_map(source)
        method = source.text()
        if method == "append":
            headers, body = source.event()
            return prefix, method, EventBatch([body], [headers])
        if method == "appendBatch":
            return prefix, method, read_events(source)
        if method == "":
            return prefix, method, None
        raise ProtocolError(f"there is no method {method!r}: there are append and appendBatch")

    def _handshake(self, source: AvroInput) -> bytes:
        client = source.fixed(_HASH_BYTES)
        text = source.octets() if source.long() else None
        knows_ours = source.fixed(_HASH_BYTES) == PROTOCOL_HASH
        if source.long():
            _skip_map(source)
        if text is not None and client not in self._known:
            if len(self._known) >= _MAX_PROTOCOLS:
                self._known.clear()
            self._known[client] = is_compatible(text)
        if client != PROTOCOL_HASH and not self._known.get(client, False):
            if text is not None:
                raise ProtocolError("the client's protocol is not AvroSourceProtocol")
            return _handshake_answer(HandshakeMatch.NONE, with_protocol=True)
        self._connected = True
        return _handshake_answer(
            HandshakeMatch.BOTH if knows_ours else HandshakeMatch.CLIENT,
            with_protocol=not knows_ours,
        )


def _handshake_answer(match: HandshakeMatch, *, with_protocol: bool) -> bytes:
    """Return the match, the server's protocol and hash if the client lacks them, no metadata."""
    parts = [encode_long(match)]
    if with_protocol:
        parts += [b"\x02", encode_long(len(PROTOCOL)), PROTOCOL, b"\x02", PROTOCOL_HASH]
    else:
        parts += [b"\x00", b"\x00"]
    return b"".join((*parts, b"\x00"))


def answer(prefix: bytes, method: str, status: AvroStatus | None) -> bytes:
    """Return the answer to a call; a ping and a failed handshake have no status."""
    if status is None:
        return prefix if method == "" else prefix + b"\x00\x00"
    return prefix + b"\x00\x00" + encode_long(status)


def is_compatible(text: bytes) -> bool:
    """Return whether a client's protocol encodes events as ours."""
    try:
        protocol = json.loads(text)
        event = next(each for each in protocol["types"] if each["name"] == "AvroFlumeEvent")
        kinds = {field["name"]: field["type"] for field in event["fields"]}
        values = kinds["headers"]["values"]
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
        return False
    text_value = values if isinstance(values, str) else values.get("type")
    return (
        [field["name"] for field in event["fields"]] == ["headers", "body"]
        and text_value == "string"
        and kinds["body"] == "bytes"
    )


def _skip_map(source: AvroInput) -> None:
    while count := source.count():
        for _ in range(count):
            source.octets()
            source.octets()


class AvroRequestor:
    """The client side of one connection: one call at a time."""

    def __init__(self, stream: PeerStream) -> None:
        self._stream = stream
        self._serial = 0
        self._connected = False

    def append_batch(self, batch: EventBatch) -> AvroStatus:
        """Send events and return the server's status.

        Raises:
            ProtocolError: the answer is invalid.
        """
        handshake = b"" if self._connected else _handshake_request()
        self._serial += 1
        call = (handshake, b"\x00", _text("appendBatch"), *write_events(batch))
        write_frame(self._stream, self._serial, *call)
        frame = read_frame(self._stream)
        if frame is None:
            raise ProtocolError("the peer closed the connection before it answered")
        source = AvroInput(frame.message)
        if not self._connected:
            self._read_handshake(source)
        _skip_map(source)
        if source.fixed(1) != b"\x00":
            raise ProtocolError("the peer answered with an error")
        try:
            return AvroStatus(source.long())
        except ValueError as error:
            raise ProtocolError(f"the peer's answer is no status: {error}") from None

    def _read_handshake(self, source: AvroInput) -> None:
        match = source.long()
        if source.long():
            source.octets()
        if source.long():
            source.fixed(_HASH_BYTES)
        if source.long():
            _skip_map(source)
        if match not in (HandshakeMatch.BOTH, HandshakeMatch.CLIENT):
            raise ProtocolError("the peer refuses our protocol: is it a Flume Avro source?")
        self._connected = True


def _handshake_request() -> bytes:
    """Return our hash and protocol, the hash that we expect of the server, and no metadata."""
    return b"".join(
        (PROTOCOL_HASH, b"\x02", encode_long(len(PROTOCOL)), PROTOCOL, PROTOCOL_HASH, b"\x00")
    )


def _text(text: str) -> bytes:
    data = text.encode()
    return encode_long(len(data)) + data
