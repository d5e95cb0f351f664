"""Where a group of the source would go on at the target."""

import struct
from dataclasses import dataclass

from headrace.mirror.format.kafka_struct import MalformedRecord, StructReader, text_bytes
from headrace.model.ids import TopicPartition

_VERSION = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's position in one partition, translated.

    Byte format (MirrorMaker 2's): key group STRING, topic STRING, partition INT32; value version
    INT16, upstream offset INT64, offset INT64, metadata STRING. The topic is called as at the
    target.
    """

    group: str
    partition: TopicPartition
    upstream_offset: int
    offset: int
    metadata: str = ""

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> "Checkpoint":
        """Read a record.

        Raises:
            MalformedRecord: the bytes have another format, or a later version of it.
        """
        names, fields = StructReader(key), StructReader(value)
        group = names.text()
        partition = TopicPartition(names.text(), names.int32())
        version = fields.int16()
        if version != _VERSION:
            raise MalformedRecord(f"a checkpoint of version {version} cannot be read")
        return cls(group, partition, fields.int64(), fields.int64(), fields.text())

    def key(self) -> bytes:
        where = text_bytes(self.group) + text_bytes(self.partition.topic)
        return where + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        fields = struct.pack(">hqq", _VERSION, self.upstream_offset, self.offset)
        return fields + text_bytes(self.metadata)
