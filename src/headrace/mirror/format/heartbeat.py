"""A sign of life from one cluster, copied along to all that it is mirrored to."""

import struct
from dataclasses import dataclass

from headrace.mirror.format.kafka_struct import MalformedRecord, StructReader, text_bytes

_VERSION = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """When a flow was alive.

    Byte format (MirrorMaker 2's): key source alias STRING, target alias STRING; value version
    INT16, timestamp INT64.
    """

    source: str
    target: str
    timestamp_ms: int

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> "Heartbeat":
        """Read a record.

        Raises:
            MalformedRecord: the bytes have another format, or a later version of it.
        """
        names, fields = StructReader(key), StructReader(value)
        source, target = names.text(), names.text()
        version = fields.int16()
        if version != _VERSION:
            raise MalformedRecord(f"a heartbeat of version {version} cannot be read")
        return cls(source, target, fields.int64())

    def key(self) -> bytes:
        return text_bytes(self.source) + text_bytes(self.target)

    def value(self) -> bytes:
        return struct.pack(">hq", _VERSION, self.timestamp_ms)
