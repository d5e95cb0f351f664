"""Zigzag varints inside kernels. The same bytes as `headrace.records.varint`."""

from headrace.records.kernel.memory import int64, load8, part, store8

BAD = -1
"""The address `read_varint` answers when there is no varint."""

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10
_LOW_63_BITS = 0x7FFFFFFFFFFFFFFF


@part
def read_varint(at: int, end: int) -> tuple[int, int]:
    """Return (value, address behind it), reading nothing from `end` on. The address is BAD when the
    bytes end inside the varint, or it is longer than ten bytes.
    """
    raw = int64(0)
    after = int64(BAD)
    if at < end:
        raw = int64(load8(at))
        if raw < 0x80:
            after = at + 1
        elif at + 1 < end and load8(at + 1) < 0x80:
            raw = raw & 0x7F | int64(load8(at + 1)) << 7
            after = at + 2
        else:
            raw, after = read_long_varint(at, end)
    return ((raw >> 1) & _LOW_63_BITS) ^ -(raw & 1), after


@part
def read_long_varint(at: int, end: int) -> tuple[int, int]:
    """Return (bits before zigzag, address behind them)."""
    raw = int64(0)
    after = int64(BAD)
    for index in range(min(MAX_VARLONG_BYTES, end - at)):
        byte = int64(load8(at + index))
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            after = at + index + 1
            break
    return raw, after


@part
def varint_bytes(value: int) -> int:
    """Return how many bytes `value` needs."""
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag & ~0x7F:
        zigzag = (zigzag >> 7) & (_LOW_63_BITS >> 6)
        size += 1
    return size


@part
def write_varint(at: int, value: int) -> int:
    """Write `value` and return the address behind it. The caller has checked the room."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag & ~0x7F:
        store8(at, zigzag & 0x7F | 0x80)
        zigzag = (zigzag >> 7) & (_LOW_63_BITS >> 6)
        at += 1
    store8(at, zigzag)
    return at + 1
