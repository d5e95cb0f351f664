"""Which offset at the target has the record that had another one at the source."""

import struct
from dataclasses import dataclass

from headrace.mirror.format.kafka_struct import StructReader, text_bytes
from headrace.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A pair of offsets of one partition.

    Byte format (MirrorMaker 2's): key topic STRING, partition INT32; value upstream offset INT64,
    offset INT64. The topic is called as at the source.
    """

    partition: TopicPartition
    upstream_offset: int
    offset: int

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> "OffsetSync":
        """Read a record.

        Raises:
            MalformedRecord: the bytes have another format, or a later version of it.
        """
        names, offsets = StructReader(key), StructReader(value)
        partition = TopicPartition(names.text(), names.int32())
        return cls(partition, offsets.int64(), offsets.int64())

    def key(self) -> bytes:
        return text_bytes(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream_offset, self.offset)
