"""A record between the API and the log."""

from typing import Final, NamedTuple
from uuid import UUID

from headrace.model.ids import TopicPartition
from headrace.records.batch import HEADER_BYTES
from headrace.records.varint import write_varint

EXPLICIT_HASH_KEY: Final = "kinesis.explicit-hash-key"
"""The header that holds an explicit hash key, in decimal."""

_OVERHEAD_BYTES: Final = 64
_HEADER_BYTES: Final = 80


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
        """About what it takes in a batch, and not less."""
        more = 0 if self.explicit_hash_key is None else _HEADER_BYTES
        return len(self.key or b"") + len(self.value) + _OVERHEAD_BYTES + more

    @property
    def batch_bytes(self) -> int:
        """Exactly what a batch takes that has no other row."""
        key_bytes = 0 if self.key is None else len(self.key)
        body = 3 + len(write_varint(-1 if self.key is None else key_bytes)) + key_bytes
        body += len(write_varint(len(self.value))) + len(self.value) + 1
        if self.explicit_hash_key is not None:
            for each in (EXPLICIT_HASH_KEY, self.explicit_hash_key):
                body += len(write_varint(len(each))) + len(each)
        return HEADER_BYTES + len(write_varint(body)) + body


class StoredRow(NamedTuple):
    """A record that was read. `is_encrypted`: its value was, in the log."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes
    is_encrypted: bool = False
