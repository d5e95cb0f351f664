"""Kafka's primitive types, as the records of `__consumer_offsets` and the members' blobs use them.

Every length, and the count of an array, is held against the bytes that remain before anything is
allocated, so a corrupt or hostile blob costs no more than its own size.
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from headrace.model.error import HeadraceError

T = TypeVar("T")

_INT16_MAX = 2**15 - 1
_VARINT_MAX_BYTES = 5


class MalformedRecord(HeadraceError, ValueError):
    """The bytes end too early, or hold an impossible length."""


class RecordWriter:
    """Appends values to a growing buffer, big-endian. Not for several threads."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __bytes__(self) -> bytes:
        return bytes(self._buffer)

    def int8(self, value: int) -> None:
        self._buffer += struct.pack(">b", value)

    def int16(self, value: int) -> None:
        self._buffer += struct.pack(">h", value)

    def int32(self, value: int) -> None:
        self._buffer += struct.pack(">i", value)

    def int64(self, value: int) -> None:
        self._buffer += struct.pack(">q", value)

    def uuid(self, value: UUID) -> None:
        self._buffer += value.bytes

    def uvarint(self, value: int) -> None:
        while value > 0x7F:
            self._buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self._buffer.append(value)

    def string(self, value: str | None) -> None:
        """Write a string behind an int16 length; None is length -1."""
        if value is None:
            self.int16(-1)
            return
        encoded = value.encode()
        if len(encoded) > _INT16_MAX:
            raise MalformedRecord(f"a string of {len(encoded)} bytes does not fit an int16 length")
        self.int16(len(encoded))
        self._buffer += encoded

    def blob(self, value: bytes) -> None:
        """Write bytes behind an int32 length."""
        self.int32(len(value))
        self._buffer += value

    def compact_string(self, value: str | None) -> None:
        """Write a string behind its length plus one; None is 0 (KIP-482)."""
        if value is None:
            self.uvarint(0)
        else:
            self.compact_blob(value.encode())

    def compact_blob(self, value: bytes) -> None:
        self.uvarint(len(value) + 1)
        self._buffer += value

    def compact_array(self, items: Iterable[T], write: Callable[[T], None]) -> None:
        listed = list(items)
        self.uvarint(len(listed) + 1)
        for item in listed:
            write(item)

    def tags(self, fields: Iterable[tuple[int, bytes]] = ()) -> None:
        """Write tagged fields (KIP-482), which the caller lists by rising tag."""
        listed = list(fields)
        self.uvarint(len(listed))
        for tag, value in listed:
            self.uvarint(tag)
            self.uvarint(len(value))
            self._buffer += value


class RecordReader:
    """Reads values from the front of `data`.

    Every method raises `MalformedRecord` when the bytes do not hold what is asked for.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._position

    def raw(self, size: int) -> bytes:
        if not 0 <= size <= self.remaining:
            raise MalformedRecord(f"{size} bytes are asked for and {self.remaining} remain")
        start = self._position
        self._position += size
        return self._data[start : self._position]

    def int8(self) -> int:
        return int.from_bytes(self.raw(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.raw(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.raw(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.raw(8), "big", signed=True)

    def uuid(self) -> UUID:
        return UUID(bytes=self.raw(16))

    def uvarint(self) -> int:
        value = 0
        for index in range(_VARINT_MAX_BYTES):
            byte = int.from_bytes(self.raw(1))
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise MalformedRecord(f"a varint is longer than {_VARINT_MAX_BYTES} bytes")

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length == -1 else self._text(length)

    def string(self) -> str:
        return self._text(self.int16())

    def blob(self) -> bytes:
        return self.raw(self.int32())

    def nullable_blob(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self.raw(length)

    def array(self, read: Callable[[], T]) -> list[T]:
        return self._items(self.int32(), read)

    def compact_nullable_string(self) -> str | None:
        length = self.uvarint()
        return None if length == 0 else self._text(length - 1)

    def compact_string(self) -> str:
        return self._text(self.uvarint() - 1)

    def compact_blob(self) -> bytes:
        return self.raw(self.uvarint() - 1)

    def compact_array(self, read: Callable[[], T]) -> list[T]:
        return self._items(self.uvarint() - 1, read)

    def tags(self) -> dict[int, bytes]:
        fields = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            fields[tag] = self.raw(self.uvarint())
        return fields

    def _text(self, length: int) -> str:
        try:
            return self.raw(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"a string is not UTF-8: {error.reason}") from None

    def _items(self, count: int, read: Callable[[], T]) -> list[T]:
        if not 0 <= count <= self.remaining:
            raise MalformedRecord(f"{count} items are announced in {self.remaining} bytes")
        return [read() for _ in range(count)]
