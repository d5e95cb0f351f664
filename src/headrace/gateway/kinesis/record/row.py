"""A record between the API and the log."""

from typing import Final, NamedTuple
from uuid import UUID

from headrace.model.ids import TopicPartition

EXPLICIT_HASH_KEY: Final = "kinesis.explicit-hash-key"
"""The header that holds an explicit hash key, in decimal."""

_OVERHEAD_BYTES: Final = 64


class ShardLog(NamedTuple):
    """The partition that holds a shard's records, of this topic and no other one of its name.

    Attributes:
        topic_id: None for a plain topic, and on brokers without topic ids.
    """

    partition: TopicPartition
    topic_id: UUID | None = None


class Row(NamedTuple):
    """A record to put: key = partition key, value = data."""

    key: bytes | None
    value: bytes
    explicit_hash_key: str | None = None

    @property
    def size_bytes(self) -> int:
        """About what it takes in a batch."""
        return len(self.key or b"") + len(self.value) + _OVERHEAD_BYTES


class StoredRow(NamedTuple):
    """A record that was read. `is_encrypted`: its value was, in the log."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes
    is_encrypted: bool = False
