"""The few variable-length forms of Kafka's protocol, written once for the hand-made messages.

Everything else on a hot path is one `struct` call. The readers raise `IndexError` or `struct.error`
past the end of the buffer: the parser of a message catches `READ_ERRORS` once around all of them.
"""

import struct
from typing import Final

Frame = bytes | memoryview

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")

NOTHING: Final = b"\x00"
"""A compact null, an absent compact array, and "no tagged fields": all are one zero byte."""


class Malformed(Exception):
    """The bytes cannot be the message. Never leaves the package: see `READ_ERRORS`."""


READ_ERRORS: Final = (Malformed, IndexError, struct.error, ValueError)
"""Every way of running off the bytes, bad UTF-8 included; callers name them for the peer."""


def pack_uvarint(value: int) -> bytes:
    """Return seven bits per byte, the low ones first.

    >>> pack_uvarint(300).hex()
    'ac02'
    """
    if value < 0x80:
        return _ONE_BYTE[value]
    low = value & 0x7F | 0x80
    if value < 0x4000:
        return bytes((low, value >> 7))
    if value < 0x20_0000:
        return bytes((low, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((low, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80)) + pack_uvarint(
        value >> 21
    )


_ONE_BYTE: Final = tuple(bytes([value]) for value in range(0x80))


def read_uvarint(buffer: Frame, at: int) -> tuple[int, int]:
    """Return the value and where it ends. Five bytes at most, as in Kafka."""
    value = buffer[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0x7FFF_FFFF:
                break
            return value, at
    raise Malformed(f"a variable-length number at byte {at} is above 2147483647")


def pack_string(text: str | None, flexible: bool) -> bytes:
    """Return a string or null behind length + 1 as a varint if flexible, else behind an int16."""
    if text is None:
        return NOTHING if flexible else b"\xff\xff"
    encoded = text.encode()
    if flexible:
        return pack_uvarint(len(encoded) + 1) + encoded
    return INT16.pack(len(encoded)) + encoded


def read_string(buffer: Frame, at: int, flexible: bool) -> tuple[str | None, int]:
    if flexible:
        length, at = read_uvarint(buffer, at)
        length -= 1
    else:
        (length,) = INT16.unpack_from(buffer, at)
        at += 2
    if length == -1:
        return None, at
    end = at + length
    if length < 0 or end > len(buffer):
        raise Malformed(f"a string of {length} bytes at byte {at} does not fit")
    return str(buffer[at:end], "utf-8"), end


def pack_count(count: int, flexible: bool) -> bytes:
    """Return the length in front of an array that is not null."""
    return pack_uvarint(count + 1) if flexible else INT32.pack(count)


def read_count(buffer: Frame, at: int, flexible: bool, item_bytes: int) -> tuple[int, int]:
    """Return an array's length, checked against the bytes that are left; -1 for null.

    `item_bytes` is the least one item takes, so a count that passes can be allocated for.
    """
    if flexible:
        count, at = read_uvarint(buffer, at)
        count -= 1
    else:
        (count,) = INT32.unpack_from(buffer, at)
        at += 4
    if count < -1 or count * item_bytes > len(buffer) - at:
        raise Malformed(f"an array of {count} items at byte {at} does not fit")
    return count, at


def read_tags(buffer: Frame, at: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Return where each tagged field (KIP-482) begins and ends, by tag; and the end of all."""
    count = buffer[at]
    if count == 0:
        return {}, at + 1
    count, at = read_uvarint(buffer, at)
    if count * 2 > len(buffer) - at or count > MAX_TAGS:
        raise Malformed(f"{count} tagged fields at byte {at} do not fit")
    tags: dict[int, tuple[int, int]] = {}
    for _ in range(count):
        tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        if size > len(buffer) - at:
            raise Malformed(f"tagged field {tag} of {size} bytes at byte {at} does not fit")
        tags[tag] = (at, at + size)
        at += size
    return tags, at


MAX_TAGS: Final = 1024
"""Kafka has four tagged fields in its richest structure; more than this is an attack."""
