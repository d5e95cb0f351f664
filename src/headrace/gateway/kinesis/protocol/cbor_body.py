"""Bodies in CBOR (RFC 8949), the part of it that AWS's SDKs for Java speak.

Written here and not taken from a library, so that every bound is in sight:

Rule 1: a declared length never allocates. It is compared with the bytes that are left first, and an
item takes at least one byte.
Rule 2: nesting is at most `_DEEPEST`, items are at most `_MOST_ITEMS`. The largest sound request,
500 records with three members each, has about 3,500.
Rule 3: tag 1 is a time in milliseconds, as AWS writes it (RFC 8949 has seconds).
"""

import math
import struct
from typing import Any, Final

from headrace.gateway.kinesis.error import serialization
from headrace.gateway.kinesis.protocol.timestamp import Timestamp

CBOR_TYPE: Final = "application/x-amz-cbor-1.1"

_DEEPEST: Final = 16
_MOST_ITEMS: Final = 65_536
_LATEST_MS: Final = 253_402_300_800_000  # year 10000

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_INDEFINITE: Final = 31
_BREAK: Final = 0xFF
_TIME_TAG: Final = 1
_CONSTANTS: Final = {20: False, 21: True, 22: None, 23: None}
_FLOATS: Final = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}


def read_cbor(body: bytes) -> Any:
    """Parse a request's body. An empty one is an empty structure.

    Raises:
        ServiceError: SerializationException.
    """
    if not body:
        return {}
    reader = _Reader(body)
    try:
        value = reader.item(0)
    except (_Malformed, struct.error, UnicodeDecodeError):
        raise serialization() from None
    if reader.at != len(body):
        raise serialization()
    return value


def write_cbor(response: dict[str, Any]) -> bytes:
    """Write a response's body."""
    out = bytearray()
    _write(out, response)
    return bytes(out)


class _Malformed(Exception):
    """Bytes that are no CBOR, or more of it than any request has."""


class _Reader:
    """Walks over one body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._items = 0
        self.at = 0

    def item(self, depth: int) -> Any:
        self._items += 1
        if depth > _DEEPEST or self._items > _MOST_ITEMS:
            raise _Malformed
        head = self._take(1)[0]
        major, low = head >> 5, head & 31
        if major == _SIMPLE:
            return self._simple(low)
        if low == _INDEFINITE:
            return self._indefinite(major, depth)
        count = self._argument(low)
        match major:
            case 0:
                return count
            case 1:
                return -1 - count
            case 2:
                return self._take(count)
            case 3:
                return self._take(count).decode()
            case 4:
                self._fits(count)
                return [self.item(depth + 1) for _ in range(count)]
            case 5:
                self._fits(2 * count)
                return dict(self._entry(depth + 1) for _ in range(count))
        return self._tagged(count, depth)

    def _entry(self, depth: int) -> tuple[str, Any]:
        name = self.item(depth)
        if not isinstance(name, str):
            raise _Malformed
        return name, self.item(depth)

    def _indefinite(self, major: int, depth: int) -> Any:
        if major == _ARRAY:
            items = []
            while not self._ends():
                items.append(self.item(depth + 1))
            return items
        if major == _MAP:
            entries = {}
            while not self._ends():
                name, value = self._entry(depth + 1)
                entries[name] = value
            return entries
        if major not in (_BYTES, _TEXT):
            raise _Malformed
        chunks = []
        while not self._ends():
            self._items += 1
            head = self._take(1)[0]
            if self._items > _MOST_ITEMS or head >> 5 != major or head & 31 == _INDEFINITE:
                raise _Malformed
            chunks.append(self._take(self._argument(head & 31)))
        whole = b"".join(chunks)
        return whole if major == _BYTES else whole.decode()

    def _tagged(self, tag: int, depth: int) -> Any:
        value = self.item(depth + 1)
        if tag != _TIME_TAG:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Malformed
        if not -_LATEST_MS <= value < _LATEST_MS:  # also refuses NaN
            raise _Malformed
        return Timestamp(int(value))

    def _simple(self, low: int) -> Any:
        if low in _CONSTANTS:
            return _CONSTANTS[low]
        if low not in _FLOATS:
            raise _Malformed
        form, size = _FLOATS[low]
        [number] = struct.unpack(form, self._take(size))
        if not math.isfinite(number):
            raise _Malformed
        return number

    def _argument(self, low: int) -> int:
        if low < 24:
            return low
        if low > 27:
            raise _Malformed
        return int.from_bytes(self._take(1 << (low - 24)), "big")

    def _ends(self) -> bool:
        if self.at >= len(self._body):
            raise _Malformed
        if self._body[self.at] != _BREAK:
            return False
        self.at += 1
        return True

    def _fits(self, count: int) -> None:
        if count > len(self._body) - self.at:
            raise _Malformed

    def _take(self, size: int) -> bytes:
        self._fits(size)
        start, self.at = self.at, self.at + size
        return self._body[start : self.at]


def _write(out: bytearray, value: Any) -> None:
    match value:
        case None:
            out.append(0xF6)
        case bool():
            out.append(0xF5 if value else 0xF4)
        case int():
            _head(out, _UNSIGNED if value >= 0 else _NEGATIVE, value if value >= 0 else -1 - value)
        case float():
            out += b"\xfb" + struct.pack(">d", value)
        case bytes():
            _head(out, _BYTES, len(value))
            out += value
        case str():
            text = value.encode()
            _head(out, _TEXT, len(text))
            out += text
        case list():
            _head(out, _ARRAY, len(value))
            for each in value:
                _write(out, each)
        case dict():
            _head(out, _MAP, len(value))
            for name, each in value.items():
                _write(out, name)
                _write(out, each)
        case Timestamp():
            _head(out, _TAG, _TIME_TAG)
            _write(out, value.ms)
        case _:
            raise TypeError(type(value))


def _head(out: bytearray, major: int, argument: int) -> None:
    first = major << 5
    if argument < 24:
        out.append(first | argument)
        return
    for low, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << (8 * size):
            out.append(first | low)
            out += argument.to_bytes(size, "big")
            return
    raise TypeError("an integer of more than 64 bits")
