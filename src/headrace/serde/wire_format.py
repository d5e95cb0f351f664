"""How a value names its schema: Confluent's framing.

Byte format:
    00, id (4 bytes, big endian), [message indexes], payload     the common one
    01, GUID (16 bytes), [message indexes], payload              rare, in front of the payload
    a header `__key_schema_id` or `__value_schema_id` that holds either head, and a bare payload

Message indexes exist for Protobuf only: a zigzag varint with their count, then each as zigzag
varint; the single byte 00 stands for [0], the first message of the file. In a header they follow
the id.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from headrace.serde.error import Undecodable

ID_MAGIC: Final = 0
GUID_MAGIC: Final = 1
ID_HEAD_BYTES: Final = 5
GUID_HEAD_BYTES: Final = 17
VALUE_HEADER: Final = "__value_schema_id"
KEY_HEADER: Final = "__key_schema_id"
# Far more than any schema nests messages.
_MOST_INDEXES: Final = 64

Headers = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Framing:
    """Which schema a value names, and where its payload begins.

    Attributes:
        id, guid: one of the two is None.
        indexed: the bytes in which message indexes follow at `indexes_at`, if it is Protobuf.
        payload_at: in the value, where message indexes or the payload begin.
        in_header: whether the head was in a header.
    """

    id: int | None
    guid: str | None
    indexed: bytes
    indexes_at: int
    payload_at: int
    in_header: bool


def id_head(schema_id: int) -> bytes:
    """Return the five bytes that name a schema."""
    return bytes((ID_MAGIC,)) + schema_id.to_bytes(4, "big")


def framing_of(data: bytes, headers: Headers = (), *, key: bool = False) -> Framing | None:
    """Return how a value names its schema; None if it names none."""
    wanted = KEY_HEADER if key else VALUE_HEADER
    for name, head in headers:
        if name == wanted and head is not None and (found := _head(head)) is not None:
            return Framing(
                *found, indexed=head, indexes_at=_size(head), payload_at=0, in_header=True
            )
    found = _head(data)
    if found is None:
        return None
    at = _size(data)
    return Framing(*found, indexed=data, indexes_at=at, payload_at=at, in_header=False)


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return message indexes and where they end.

    >>> read_indexes(bytes([4, 2, 0]), 0)
    ((1, 0), 3)

    Raises:
        Undecodable: they are cut off, negative, or too many.
    """
    count, at = _zigzag(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise Undecodable(f"the value claims {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        if index < 0:
            raise Undecodable("the value has a negative message index")
        indexes.append(index)
    return tuple(indexes), at


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return message indexes as bytes.

    >>> write_indexes((1, 0)).hex(), write_indexes((0,)).hex()
    ('040200', '00')
    """
    if indexes == (0,):
        return b"\0"
    return b"".join(_varint(each << 1) for each in (len(indexes), *indexes))


def _head(data: bytes) -> tuple[int | None, str | None] | None:
    if len(data) >= ID_HEAD_BYTES and data[0] == ID_MAGIC:
        return int.from_bytes(data[1:ID_HEAD_BYTES], "big"), None
    if len(data) >= GUID_HEAD_BYTES and data[0] == GUID_MAGIC:
        return None, str(UUID(bytes=bytes(data[1:GUID_HEAD_BYTES])))
    return None


def _size(data: bytes) -> int:
    return ID_HEAD_BYTES if data[0] == ID_MAGIC else GUID_HEAD_BYTES


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise Undecodable("the value's message indexes are cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
