"""Frames of `application/vnd.amazon.eventstream`, which SubscribeToShard answers with.

    4 bytes        4 bytes          4 bytes           ...       ...       4 bytes
    total length   headers length   CRC32 of these    headers   payload   CRC32 of all before

A header is a name with its length in one byte, the type 7 (a string), and a value with its length
in two bytes.
"""

import struct
import zlib
from typing import Final

EVENT_STREAM_TYPE: Final = "application/vnd.amazon.eventstream"
_STRING: Final = 7
_FRAME_BYTES: Final = 16


def event(kind: str, payload: bytes, content_type: str) -> bytes:
    """Return an event, such as `SubscribeToShardEvent`."""
    headers = {":message-type": "event", ":event-type": kind, ":content-type": content_type}
    return _frame(headers, payload)


def exception(code: str, payload: bytes, content_type: str) -> bytes:
    """Return an exception, after which the stream ends."""
    headers = {
        ":message-type": "exception",
        ":exception-type": code,
        ":content-type": content_type,
    }
    return _frame(headers, payload)


def _frame(headers: dict[str, str], payload: bytes) -> bytes:
    packed = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", _FRAME_BYTES + len(packed) + len(payload), len(packed))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    text = value.encode()
    head = struct.pack(">B", len(name)) + name.encode()
    return head + struct.pack(">BH", _STRING, len(text)) + text
