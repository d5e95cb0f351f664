"""Base64 of many values at once (RFC 4648, section 4).

Rule 1: only what is exactly base64 is decoded: whole groups of four characters, padding in the last
one alone. Another value is the caller's: `decode_base64` says at which one it stopped.
"""

from typing import Final

import numpy as np

from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    int64,
    kernel,
    load8,
    part,
    read_only,
    store8,
)

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PADDING: Final = ord("=")
_INVALID: Final = 0x80

LETTERS: Final = read_only(np.frombuffer(_ALPHABET, dtype=np.uint8))
"""The character of each number below 64."""


def _digits() -> Bytes:
    digits = np.full(256, _INVALID, dtype=np.uint8)
    digits[LETTERS] = np.arange(64, dtype=np.uint8)
    return read_only(digits)


DIGITS: Final = _digits()
"""The number of each character; `_INVALID` for those that have none."""


@part
def _group(at: int, digits: int) -> int:
    """Return the 24 bits of four characters, and something above them if one is none."""
    first = int64(load8(digits + int64(load8(at))))
    second = int64(load8(digits + int64(load8(at + 1))))
    third = int64(load8(digits + int64(load8(at + 2))))
    fourth = int64(load8(digits + int64(load8(at + 3))))
    invalid = (first | second | third | fourth) & _INVALID
    return invalid << 24 | first << 18 | second << 12 | third << 6 | fourth


@kernel
def decode_base64(text: Bytes, starts: Int64s, out: Bytes, ends: Int64s, digits: Bytes) -> int:
    """Decode values that lie one behind the other.

    Args:
        starts: where each value starts in `text`, and where the last one ends.
        out: three bytes for four of `text`, at least.
        ends: receives where each value ends in `out`.
        digits: `DIGITS`.

    Returns:
        How many values were decoded: all, or those before the first that is not exactly base64.
    """
    source, to, table = address(text), address(out), address(digits)
    written = 0
    for value in range(len(starts) - 1):
        at, end = source + starts[value], source + starts[value + 1]
        if (end - at) & 3:
            return value
        invalid = 0
        while at + 4 < end:
            bits = _group(at, table)
            invalid |= bits >> 24
            store8(to + written, bits >> 16 & 255)
            store8(to + written + 1, bits >> 8 & 255)
            store8(to + written + 2, bits & 255)
            at += 4
            written += 3
        if at < end:
            first = int64(load8(table + int64(load8(at))))
            second = int64(load8(table + int64(load8(at + 1))))
            third, fourth = int64(load8(at + 2)), int64(load8(at + 3))
            size = 3 - (fourth == _PADDING) - (third == _PADDING and fourth == _PADDING)
            third = 0 if size == 1 else int64(load8(table + third))
            fourth = 0 if size <= 2 else int64(load8(table + fourth))
            invalid |= (first | second | third | fourth) & _INVALID
            bits = first << 18 | second << 12 | third << 6 | fourth
            store8(to + written, bits >> 16 & 255)
            if size > 1:
                store8(to + written + 1, bits >> 8 & 255)
            if size > 2:
                store8(to + written + 2, bits & 255)
            written += size
        if invalid:
            return value
        ends[value] = written
    return len(starts) - 1


@kernel
def encode_base64(data: Bytes, starts: Int64s, out: Bytes, ends: Int64s, letters: Bytes) -> None:
    """Encode values that lie one behind the other.

    Args:
        starts: where each value starts in `data`, and where the last one ends.
        out: four bytes for each three of a value that have begun, at least.
        ends: receives where each value ends in `out`.
        letters: `LETTERS`.
    """
    source, to, table = address(data), address(out), address(letters)
    written = 0
    for value in range(len(starts) - 1):
        at, end = source + starts[value], source + starts[value + 1]
        while at < end:
            left = end - at
            bits = int64(load8(at)) << 16
            if left > 1:
                bits |= int64(load8(at + 1)) << 8
            if left > 2:
                bits |= int64(load8(at + 2))
            store8(to + written, int64(load8(table + (bits >> 18))))
            store8(to + written + 1, int64(load8(table + (bits >> 12 & 63))))
            third = int64(load8(table + (bits >> 6 & 63))) if left > 1 else _PADDING
            fourth = int64(load8(table + (bits & 63))) if left > 2 else _PADDING
            store8(to + written + 2, third)
            store8(to + written + 3, fourth)
            at += 3
            written += 4
        ends[value] = written
