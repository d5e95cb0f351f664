"""The writing loop: Arrow buffers into the bytes of batches, cut where a batch is full.

Theory of operation. One walk over the rows. A record's size is known from its fields before it is
written, so the walk decides whether it still fits the batch it is filling. If not, it closes that
batch as one row of the table, leaves room for the next head, and starts over with deltas of zero.
The heads are written by the caller: they need the CRC, and with compression the final size.

Rule 1: the caller sizes `out` by `room_bytes` and the table by `batch_limit`, which bound what any
rows can take; the walk still checks every record against the room that is left.
Rule 2: offsets that come from Arrow are checked against the bytes they point into.
"""

from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    int64,
    kernel,
    load8,
    part,
    put,
    store8,
)
from headrace.records.kernel.varint import varint_bytes, write_varint

# The columns of the batch table.
START = 0  # where the records start; the head goes into the 61 bytes before
END = 1
COUNT = 2
BASE_TIMESTAMP = 3
MAX_TIMESTAMP = 4
TABLE_COLUMNS = 5

# The slots of `result`.
BATCHES = 0
ERROR = 1
ERROR_ROW = 2
RESULT_SLOTS = 3

# What ERROR says.
OK = 0
BAD_ARROW = 1
TOO_LARGE = 2
NO_ROOM = 3

# Repeated from records/batch.py: numba's cache does not see imported constants (`memory`, rule 3).
_HEADER_BYTES = 61
# Length, attributes, timestamp delta, offset delta, key length, value length, header count.
_MOST_RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
_MOST_HEADER_OVERHEAD = 5 + 5
_LARGEST_RECORD = 2**31 - 1 - _HEADER_BYTES - 64


def room_bytes(rows: int, headers: int, content_bytes: int, batches: int) -> int:
    """Return the most that rows with this much in their keys, values and headers can need."""
    return (
        rows * _MOST_RECORD_OVERHEAD
        + headers * _MOST_HEADER_OVERHEAD
        + content_bytes
        + batches * _HEADER_BYTES
    )


def batch_limit(rows: int, headers: int, content_bytes: int, max_batch_bytes: int) -> int:
    """Return the most batches there can be: of two that follow each other, the first record of the
    second did not fit into the first, so both together need more than `max_batch_bytes`.
    """
    all_bytes = room_bytes(rows, headers, content_bytes, 0)
    per_batch = max(1, max_batch_bytes - 2 * _HEADER_BYTES)
    return min(rows, 2 * (all_bytes // per_batch) + 2)


@part
def is_valid(bitmap: int, bit: int) -> bool:
    """Return whether a row is not null. `bitmap` is an address, 0 for a column without nulls."""
    return bitmap == 0 or (int64(load8(bitmap + (bit >> 3))) >> (bit & 7)) & 1 != 0


@kernel
def write_rows(
    rows: int,
    max_batch_bytes: int,
    timestamps: Int64s,
    one_timestamp: bool,
    key_index: Int64s,
    key_bytes: Bytes,
    key_valid: Bytes,
    key_bit: int,
    value_index: Int64s,
    value_bytes: Bytes,
    value_valid: Bytes,
    value_bit: int,
    list_index: Int64s,
    list_valid: Bytes,
    list_bit: int,
    header_key_index: Int64s,
    header_key_bytes: Bytes,
    header_value_index: Int64s,
    header_value_bytes: Bytes,
    header_value_valid: Bytes,
    header_value_bit: int,
    out: Bytes,
    table: Int64s,
    result: Int64s,
) -> None:
    """Write all rows. An empty index stands for a column of nulls, or for no headers at all.

    `*_valid` is a validity bitmap, whose bit `*_bit` belongs to row 0, or empty without nulls.
    """
    to = address(out)
    room_end = to + out.shape[0]
    key_from = address(key_bytes)
    key_from_end = key_from + key_bytes.shape[0]
    key_bitmap = address(key_valid) if key_valid.shape[0] else 0
    value_from = address(value_bytes)
    value_from_end = value_from + value_bytes.shape[0]
    value_bitmap = address(value_valid) if value_valid.shape[0] else 0
    list_bitmap = address(list_valid) if list_valid.shape[0] else 0
    name_from = address(header_key_bytes)
    name_from_end = name_from + header_key_bytes.shape[0]
    content_from = address(header_value_bytes)
    content_from_end = content_from + header_value_bytes.shape[0]
    content_bitmap = address(header_value_valid) if header_value_valid.shape[0] else 0
    has_keys = key_index.shape[0] > 0
    has_values = value_index.shape[0] > 0
    has_headers = list_index.shape[0] > 0

    batch = -1
    start = to
    at = to
    first_row = 0
    base_timestamp = int64(0)
    max_timestamp = int64(0)
    error = OK
    row = 0
    for row in range(rows):
        timestamp = timestamps[0] if one_timestamp else timestamps[row]
        key_size = int64(-1)
        key_at = key_from
        if has_keys and is_valid(key_bitmap, key_bit + row):
            key_at = key_from + key_index[row]
            key_size = key_index[row + 1] - key_index[row]
            if key_index[row] < 0 or key_size < 0 or key_at + key_size > key_from_end:
                error = BAD_ARROW
                break
        value_size = int64(-1)
        value_at = value_from
        if has_values and is_valid(value_bitmap, value_bit + row):
            value_at = value_from + value_index[row]
            value_size = value_index[row + 1] - value_index[row]
            if value_index[row] < 0 or value_size < 0 or value_at + value_size > value_from_end:
                error = BAD_ARROW
                break
        first_header = int64(0)
        past_header = int64(0)
        headers_size = int64(0)
        if has_headers and is_valid(list_bitmap, list_bit + row):
            first_header = list_index[row]
            past_header = list_index[row + 1]
            if first_header < 0 or past_header > header_key_index.shape[0] - 1:
                error = BAD_ARROW
                break
            for header in range(first_header, past_header):
                begin = header_key_index[header]
                size = header_key_index[header + 1] - begin
                if begin < 0 or size < 0 or name_from + begin + size > name_from_end:
                    error = BAD_ARROW
                    break
                headers_size += varint_bytes(size) + size
                size = int64(-1)
                if is_valid(content_bitmap, header_value_bit + header):
                    begin = header_value_index[header]
                    size = header_value_index[header + 1] - begin
                    if begin < 0 or size < 0 or content_from + begin + size > content_from_end:
                        error = BAD_ARROW
                        break
                headers_size += varint_bytes(size) + max(size, 0)
            if error != OK:
                break
        fixed_size = (
            1
            + varint_bytes(key_size)
            + max(key_size, 0)
            + varint_bytes(value_size)
            + max(value_size, 0)
            + varint_bytes(past_header - first_header)
            + headers_size
        )
        if fixed_size > _LARGEST_RECORD:
            error = TOO_LARGE
            break
        body = fixed_size + varint_bytes(timestamp - base_timestamp) + varint_bytes(row - first_row)
        if batch < 0 or (at - start + _HEADER_BYTES + varint_bytes(body) + body > max_batch_bytes):
            if batch >= 0:
                table[batch, END] = at - to
                table[batch, COUNT] = row - first_row
                table[batch, MAX_TIMESTAMP] = max_timestamp
            batch += 1
            if batch >= table.shape[0] or room_end - at < _HEADER_BYTES:
                error = NO_ROOM
                break
            at += _HEADER_BYTES
            start = at
            first_row = row
            base_timestamp = timestamp
            max_timestamp = timestamp
            table[batch, START] = at - to
            table[batch, BASE_TIMESTAMP] = timestamp
            body = fixed_size + 2
        if room_end - at < body + 5:
            error = NO_ROOM
            break
        max_timestamp = max(max_timestamp, timestamp)

        at = write_varint(at, body)
        store8(at, 0)
        at = write_varint(at + 1, timestamp - base_timestamp)
        at = write_varint(at, row - first_row)
        at = write_varint(at, key_size)
        if key_size > 0:
            put(at, room_end, key_at, key_from_end, key_size)
            at += key_size
        at = write_varint(at, value_size)
        if value_size > 0:
            put(at, room_end, value_at, value_from_end, value_size)
            at += value_size
        at = write_varint(at, past_header - first_header)
        for header in range(first_header, past_header):
            begin = header_key_index[header]
            size = header_key_index[header + 1] - begin
            at = write_varint(at, size)
            put(at, room_end, name_from + begin, name_from_end, size)
            at += size
            if is_valid(content_bitmap, header_value_bit + header):
                begin = header_value_index[header]
                size = header_value_index[header + 1] - begin
                at = write_varint(at, size)
                put(at, room_end, content_from + begin, content_from_end, size)
                at += size
            else:
                at = write_varint(at, -1)
    if error == OK and batch >= 0:
        table[batch, END] = at - to
        table[batch, COUNT] = row + 1 - first_row
        table[batch, MAX_TIMESTAMP] = max_timestamp
    result[BATCHES] = batch + 1
    result[ERROR] = error
    result[ERROR_ROW] = row
