"""Hadoop's SequenceFile, uncompressed: the default format of Flume's hdfs sink.

A file has `SEQ` and version 6, the names of the key and value classes, two flags, no metadata, and
a random sync mark of 16 bytes; then records with their lengths. The sync mark is repeated about
every 2000 bytes, so that a reader can start in the middle.
"""

import os
import struct
import time

from headrace.ingest.event import EventBatch
from headrace.ingest.format.event_time import time_ms
from headrace.ingest.format.serializer import Serializer

_LENGTHS = struct.Struct(">ii")
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_SYNC_INTERVAL = 2000
_PREFIX = "org.apache.hadoop.io."


def write_vint(value: int) -> bytes:
    """Return a number that is not negative as Hadoop's variable-length integer.

    >>> write_vint(100), write_vint(300)
    (b'd', b'\\x8e\\x01,')
    """
    if value < 128:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


class SequenceFileSerializer(Serializer):
    """The key is the event's time in milliseconds, the value its body."""

    def __init__(self, *, as_text: bool = False) -> None:
        self._as_text = as_text
        self._mark = os.urandom(16)
        self._since_mark = 0

    def head(self) -> bytes:
        value = "Text" if self._as_text else "BytesWritable"
        names = b"".join(
            write_vint(len(name)) + name
            for name in (f"{_PREFIX}LongWritable".encode(), f"{_PREFIX}{value}".encode())
        )
        return b"SEQ\x06" + names + b"\x00\x00" + _INT.pack(0) + self._mark

    def encode(self, batch: EventBatch) -> bytes:
        now = time.time_ns() // 1_000_000
        out = bytearray()
        for headers, body in batch:
            if self._since_mark >= _SYNC_INTERVAL:
                out += _INT.pack(-1) + self._mark
                self._since_mark = 0
            written = time_ms(headers)
            moment = now if written is None else written
            size = write_vint(len(body)) if self._as_text else _INT.pack(len(body))
            record = _LENGTHS.pack(8 + len(size) + len(body), 8) + _LONG.pack(moment) + size + body
            out += record
            self._since_mark += len(record)
        return bytes(out)
