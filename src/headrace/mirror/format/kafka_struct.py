"""Kafka's old Struct types: numbers big endian, texts with an int16 length before them."""

import struct

from headrace.model.error import PeerError


class MalformedRecord(PeerError):
    """A record in one of the mirrors' own topics is none of theirs."""


class StructReader:
    """Reads fields one after the other.

    Raises, in every method:
        MalformedRecord: the bytes end before the field does.
    """

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise MalformedRecord("the record has no bytes")
        self._data = data
        self._at = 0

    def int16(self) -> int:
        return self._number(">h", 2)

    def int32(self) -> int:
        return self._number(">i", 4)

    def int64(self) -> int:
        return self._number(">q", 8)

    def text(self) -> str:
        length = self.int16()
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise MalformedRecord("a text ends after the record")
        try:
            found = self._data[self._at : end].decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord("a text is no UTF-8") from error
        self._at = end
        return found

    def _number(self, form: str, size: int) -> int:
        if self._at + size > len(self._data):
            raise MalformedRecord("a number ends after the record")
        (found,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(found)


def text_bytes(text: str) -> bytes:
    """Return a text as it is written."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data
