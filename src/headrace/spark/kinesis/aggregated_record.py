"""The records inside a record of the Kinesis Producer Library (KPL), which packs many into one.

Byte format: F3 89 9A C2, a message of protobuf, and the MD5 of the message (16 bytes). The message
has three repeated fields: 1 partition keys, 2 explicit hash keys, 3 records. A record has an index
into the keys (1), perhaps one into the hash keys (2), its data (3), and tags (4), which are unused.

Rule 1: data that is not exactly this, with the right MD5, is a plain record: any client may put
bytes that begin like an aggregate.
Rule 2: nothing is copied but keys and data, so the result is not larger than the record.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES: Final = 16
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_VARINT_MAX_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A record as a producer put it.

    Attributes:
        index: its place in the record of the stream; None if it was put alone.
    """

    partition_key: str | None
    explicit_hash_key: str | None
    data: bytes
    index: int | None = None


class _Malformed(Exception):
    """The bytes are no aggregate."""


def user_records(data: bytes, partition_key: str | None) -> list[UserRecord]:
    """Return the records inside a record of a stream: itself, if it is no aggregate.

    >>> user_records(b"hello", "ada")
    [UserRecord(partition_key='ada', explicit_hash_key=None, data=b'hello', index=None)]
    """
    plain = [UserRecord(partition_key, None, data)]
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _DIGEST_BYTES:
        return plain
    message, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return plain
    try:
        return _records(message)
    except (_Malformed, UnicodeDecodeError):
        return plain


def _records(message: bytes) -> list[UserRecord]:
    keys: list[str] = []
    hash_keys: list[str] = []
    bodies: list[bytes] = []
    for number, value in _fields(message):
        if number in (1, 2, 3):
            if not isinstance(value, bytes):
                raise _Malformed
            if number == 3:
                bodies.append(value)
            else:
                (keys if number == 1 else hash_keys).append(value.decode())
    return [_record(body, keys, hash_keys, at) for at, body in enumerate(bodies)]


def _record(body: bytes, keys: list[str], hash_keys: list[str], index: int) -> UserRecord:
    found = dict(_fields(body))
    key, hash_key, data = found.get(1), found.get(2), found.get(3)
    if not isinstance(key, int) or not isinstance(data, bytes) or isinstance(hash_key, bytes):
        raise _Malformed
    if key >= len(keys) or (hash_key is not None and hash_key >= len(hash_keys)):
        raise _Malformed
    return UserRecord(keys[key], None if hash_key is None else hash_keys[hash_key], data, index)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED_32, _FIXED_64):
            size = 4 if kind == _FIXED_32 else 8
        else:
            raise _Malformed
        if at + size > len(message):
            raise _Malformed
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_MAX_BYTES):
        if at + place >= len(message):
            break
        byte = message[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise _Malformed
