"""The header loop: the second walk, over the headers alone, when `read_rows` has counted any."""

import numpy as np

from headrace.records.kernel.heads import INFLATED, ROWS
from headrace.records.kernel.memory import (
    Bytes,
    Int32s,
    Int64s,
    address,
    kernel,
    load8,
    put,
)
from headrace.records.kernel.varint import BAD, read_varint

# The slots of `result`.
FAILED = 0  # 1: the bytes are no longer those that `read_rows` counted
NOT_ASCII = 1  # 1: some key needs its UTF-8 checked
VALUE_NULLS = 2
RESULT_SLOTS = 3


@kernel
def read_headers(
    fetched: Bytes,
    arena: Bytes,
    table: Int64s,
    header_index: Int32s,
    header_at: Int64s,
    key_index: Int32s,
    key_bytes: Bytes,
    value_index: Int32s,
    value_bytes: Bytes,
    value_valid: Bytes,
    result: Int64s,
) -> None:
    """Gather all headers of all rows into one key and one value column.

    `read_rows` has checked these bytes and sized the outputs. They are checked again here, because
    the caller's buffer may be written to by another thread between the two walks.
    """
    key_to = address(key_bytes)
    value_to = address(value_bytes)
    key_room = key_bytes.shape[0]
    value_room = value_bytes.shape[0]
    key_end = 0
    value_end = 0
    nulls = 0
    row = 0
    for number in range(table.shape[0]):
        data = address(arena) if table[number, INFLATED] else address(fetched)
        end = data + (arena.shape[0] if table[number, INFLATED] else fetched.shape[0])
        for _ in range(table[number, ROWS]):
            at = data + header_at[row]
            for header in range(header_index[row], header_index[row + 1]):
                size, at = read_varint(at, end)
                if at == BAD or size < 0 or size > end - at or size > key_room - key_end:
                    result[FAILED] = 1
                    return
                for place in range(size):
                    if load8(at + place) >= 0x80:
                        result[NOT_ASCII] = 1
                put(key_to + key_end, key_to + key_room, at, end, size)
                key_end += size
                key_index[header + 1] = key_end
                size, at = read_varint(at + size, end)
                if at == BAD or size > end - at or size > value_room - value_end:
                    result[FAILED] = 1
                    return
                if size < 0:
                    size = 0
                    nulls += 1
                    value_valid[header >> 3] &= np.uint8(~(1 << (header & 7)) & 0xFF)
                put(value_to + value_end, value_to + value_room, at, end, size)
                at += size
                value_end += size
                value_index[header + 1] = value_end
            row += 1
    result[VALUE_NULLS] = nulls
