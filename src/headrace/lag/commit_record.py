"""Commits as `__consumer_offsets` has them: the one kind of record that lag is computed from.

Key: int16 version (0 or 1), group, topic, int32 partition. Value: int16 version, int64 offset, an
int32 leader epoch from version 3 on, a note, int64 time of the commit. Strings have an int16
length, in values of version 4 and later an unsigned varint of the length plus one.
`docs/formats/consumer-offsets.md` has all records.
"""

import struct
from dataclasses import dataclass

from headrace.model.ids import TopicPartition

_KEY_VERSIONS = (0, 1)
_FIRST_WITH_EPOCH = 3
_FIRST_FLEXIBLE = 4


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit. Without an offset, it was deleted."""

    group: str
    partition: TopicPartition
    offset: int | None
    at_ms: int


def read_commit(key: bytes | None, value: bytes | None) -> CommitRecord | None:
    """Return the commit in a record, or None for another kind of record or a malformed one."""
    if key is None:
        return None
    try:
        (version,) = struct.unpack_from(">h", key)
        if version not in _KEY_VERSIONS:
            return None
        group, at = _string(key, 2)
        topic, at = _string(key, at)
        (index,) = struct.unpack_from(">i", key, at)
        partition = TopicPartition(topic, index)
        if value is None:
            return CommitRecord(group, partition, None, 0)
        offset, at_ms = _value(value)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    return CommitRecord(group, partition, offset, at_ms)


def _value(value: bytes) -> tuple[int, int]:
    version, offset = struct.unpack_from(">hq", value)
    at = 10 + (4 if version >= _FIRST_WITH_EPOCH else 0)
    if version >= _FIRST_FLEXIBLE:
        length, at = _unsigned_varint(value, at)
        at += max(length - 1, 0)
    else:
        (length,) = struct.unpack_from(">h", value, at)
        at += 2 + max(length, 0)
    (at_ms,) = struct.unpack_from(">q", value, at)
    return offset, at_ms


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    at += 2
    if length < 0 or at + length > len(data):
        raise IndexError
    return data[at : at + length].decode(), at + length


def _unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 28:
            raise IndexError
