"""Zigzag varints, one at a time, in plain Python: for control batches, which hold a single record.

Bulk paths use `headrace.records.kernel`, which must read and write the same bytes.
"""

from headrace.model.error import CorruptBatch

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def write_varint(value: int) -> bytes:
    """Return `value`, an int64, as a zigzag varint.

    >>> write_varint(-1), write_varint(64)
    (b'\\x01', b'\\x80\\x01')
    """
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def read_varint(
    view: memoryview, position: int, max_bytes: int = MAX_VARLONG_BYTES
) -> tuple[int, int]:
    """Return the varint at `position`, and the position behind it.

    Raises:
        CorruptBatch: the view ends inside the varint, or it has more than `max_bytes` bytes.
    """
    raw = 0
    for index in range(max_bytes):
        if position + index >= len(view):
            raise CorruptBatch(f"The records end inside the varint at byte {position}.")
        byte = view[position + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    raise CorruptBatch(f"The varint at byte {position} has more than {max_bytes} bytes.")
