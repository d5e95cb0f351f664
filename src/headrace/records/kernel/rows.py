"""The record loop: the bytes of any number of batches into the buffers of Arrow columns.

Theory of operation. `scan_heads` has made a table with one row for each batch: what its head says
and where its records lie (in the fetched bytes, or inflated in the arena). `read_rows` walks them
once. It checks every length against the bytes that are there, and writes each record's fields
straight into the Arrow buffers, while its bytes are in the cache.

Rule 1: a record takes at least `MIN_RECORD_BYTES`. The caller has checked that no batch counts more
records than its bytes can hold, so the output arrays, sized by those counts, suffice.
Rule 2: all keys, and all values, together are shorter than all record bytes: an output of that size
suffices too.
Rule 3: the first thing wrong stops the walk; `result` then names what and where. What the outputs
hold then is garbage, and no caller reads it.
"""

import numpy as np

from headrace.records.kernel.heads import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BUFFER,
    COUNT,
    END,
    INFLATED,
    LAST_DELTA,
    MAX_TIMESTAMP,
    ROWS,
    SKIP,
    START,
)
from headrace.records.kernel.memory import (
    Bytes,
    Int32s,
    Int64s,
    address,
    int64,
    kernel,
    load8,
    load32,
    load64,
    part,
    prefetch,
    put,
    store64,
)
from headrace.records.kernel.varint import BAD, read_varint

MIN_RECORD_BYTES = 7

# Flags of the columns to read. The array of any other column may be empty.
COLUMN_OFFSET = 1
COLUMN_TIMESTAMP = 2
COLUMN_KEY = 4
COLUMN_VALUE = 8
COLUMN_HEADERS = 16
AS_VIEWS = 32

# The slots of `result`.
ROW_COUNT = 0
KEY_BYTES = 1
VALUE_BYTES = 2
KEY_NULLS = 3
VALUE_NULLS = 4
HEADER_COUNT = 5
HEADER_KEY_BYTES = 6
HEADER_VALUE_BYTES = 7
ERROR = 8
ERROR_BATCH = 9
ERROR_RECORD = 10
RESULT_SLOTS = 11

# What ERROR says; `PROBLEMS` has a sentence for each.
OK = 0
BAD_LENGTH = 1
BAD_TIMESTAMP = 2
BAD_OFFSET = 3
BAD_KEY = 4
BAD_VALUE = 5
BAD_HEADERS = 6
BAD_END = 7
TRAILING = 8

PROBLEMS = {
    BAD_LENGTH: "its length is cut off or reaches past the end of the batch",
    BAD_TIMESTAMP: "its timestamp delta is cut off",
    BAD_OFFSET: "its offset delta does not rise from the record before it to the batch's last",
    BAD_KEY: "its key reaches past the end of the record",
    BAD_VALUE: "its value reaches past the end of the record",
    BAD_HEADERS: "its headers reach past the end of the record",
    BAD_END: "its fields do not end where its length says",
    TRAILING: "bytes follow it that the batch's record count does not cover",
}

_INLINE_BYTES = 12
_HALF = np.uint64(32)
_APPEND_TIME_BIT = 0x08
# How far before it is parsed a record's cache line is asked for: about twenty records of 100 bytes.
_AHEAD_BYTES = 2048
_AHEAD_OUT_BYTES = 1024


@part
def put_view(to: int, at: int, size: int, start: int, end: int, buffer: int) -> None:
    """Write one 16-byte entry of an Arrow view column: the value itself up to 12 bytes, else its
    first four bytes and where it lies in its buffer, which is from `start` to `end`."""
    if size > _INLINE_BYTES:
        prefix = np.uint64(np.uint32(load32(at)))
        store64(to, np.uint64(size) | prefix << _HALF)
        store64(to + 8, np.uint64(buffer) | np.uint64(at - start) << _HALF)
    elif size <= 0:
        store64(to, np.uint64(0))
        store64(to + 8, np.uint64(0))
    else:
        low = np.uint64(0)
        high = np.uint64(0)
        if at + 16 <= end:
            low = load64(at)
            high = load64(at + 8)
        else:
            for place in range(size):
                byte = np.uint64(load8(at + place))
                if place < 8:
                    low |= byte << np.uint64(8 * place)
                else:
                    high |= byte << np.uint64(8 * place - 64)
        # What follows the value in the source is cut away: the rest of a view must be zero.
        if size < 8:
            low &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
            high = np.uint64(0)
        else:
            high &= (np.uint64(1) << np.uint64(8 * size - 64)) - np.uint64(1)
        store64(to, np.uint64(size) | low << _HALF)
        store64(to + 8, low >> _HALF | high << _HALF)


@kernel
def read_rows(
    fetched: Bytes,
    arena: Bytes,
    table: Int64s,
    first_batch: int,
    past_batch: int,
    columns: int,
    first_offset: int,
    past_offset: int,
    offsets: Int64s,
    timestamps: Int64s,
    key_index: Int32s,
    key_bytes: Bytes,
    key_valid: Bytes,
    value_index: Int32s,
    value_bytes: Bytes,
    value_valid: Bytes,
    header_index: Int32s,
    header_at: Int64s,
    result: Int64s,
) -> None:
    """Walk the batches of `table` from `first_batch` up to `past_batch`, and fill the columns that
    `columns` names. A next call goes on where `result` says this one ended.

    `*_index` holds the int32 offsets of a binary column (the first 0 is the caller's), or with
    `AS_VIEWS` the views. `*_valid` comes in as all ones. `header_index` holds the offsets of the
    list column, all zero at first, and `header_at` where each record's headers start.
    """
    views = columns & AS_VIEWS != 0
    fetched_start = address(fetched)
    fetched_end = fetched_start + fetched.shape[0]
    arena_start = address(arena)
    arena_end = arena_start + arena.shape[0]
    offsets_to = address(offsets)
    timestamps_to = address(timestamps)
    key_views = address(key_index)
    key_to = address(key_bytes)
    key_to_end = key_to + key_bytes.shape[0]
    value_views = address(value_index)
    value_to = address(value_bytes)
    value_to_end = value_to + value_bytes.shape[0]
    row = result[ROW_COUNT]
    key_end = result[KEY_BYTES]
    value_end = result[VALUE_BYTES]
    key_nulls = result[KEY_NULLS]
    value_nulls = result[VALUE_NULLS]
    header_count = result[HEADER_COUNT]
    header_key_bytes = result[HEADER_KEY_BYTES]
    header_value_bytes = result[HEADER_VALUE_BYTES]
    for number in range(first_batch, past_batch):
        if table[number, SKIP]:
            continue
        source = arena_start if table[number, INFLATED] else fetched_start
        source_end = arena_end if table[number, INFLATED] else fetched_end
        at = source + table[number, START]
        end = source + table[number, END]
        base_offset = table[number, BASE_OFFSET]
        last_delta = table[number, LAST_DELTA]
        base_timestamp = table[number, BASE_TIMESTAMP]
        append_time = table[number, ATTRIBUTES] & _APPEND_TIME_BIT != 0
        max_timestamp = table[number, MAX_TIMESTAMP]
        buffer = table[number, BUFFER]
        first_row = row
        before = int64(-1)
        error = OK
        record = 0
        for record in range(table[number, COUNT]):  # noqa: B007 - read behind the loop
            prefetch(at + _AHEAD_BYTES)
            prefetch(at + _AHEAD_BYTES + 64)
            length, at = read_varint(at, end)
            if at == BAD or length < MIN_RECORD_BYTES - 1 or length > end - at:
                error = BAD_LENGTH
                break
            record_end = at + length
            timestamp_delta, at = read_varint(at + 1, record_end)
            if at == BAD:
                error = BAD_TIMESTAMP
                break
            delta, at = read_varint(at, record_end)
            if at == BAD or delta <= before or delta > last_delta:
                error = BAD_OFFSET
                break
            before = delta
            key_size, at = read_varint(at, record_end)
            if at == BAD or key_size > record_end - at or key_size < -1:
                error = BAD_KEY
                break
            key_at = at
            value_size, at = read_varint(at + max(key_size, 0), record_end)
            if at == BAD or value_size > record_end - at or value_size < -1:
                error = BAD_VALUE
                break
            value_at = at
            headers, at = read_varint(at + max(value_size, 0), record_end)
            if at == BAD or headers < 0:
                error = BAD_HEADERS
                break
            headers_at = at
            headers_key_bytes = 0
            headers_value_bytes = 0
            for _ in range(headers):
                size, at = read_varint(at, record_end)
                if at == BAD or size < 0 or size > record_end - at:
                    error = BAD_HEADERS
                    break
                headers_key_bytes += size
                size, at = read_varint(at + size, record_end)
                if at == BAD or size < -1 or size > record_end - at:
                    error = BAD_HEADERS
                    break
                if size > 0:
                    headers_value_bytes += size
                    at += size
            if error != OK:
                break
            if at != record_end:
                error = BAD_END
                break

            offset = base_offset + delta
            if offset < first_offset or offset >= past_offset:
                continue
            if columns & COLUMN_OFFSET:
                prefetch(offsets_to + row * 8 + _AHEAD_OUT_BYTES)
                offsets[row] = offset
            if columns & COLUMN_TIMESTAMP:
                prefetch(timestamps_to + row * 8 + _AHEAD_OUT_BYTES)
                timestamps[row] = max_timestamp if append_time else base_timestamp + timestamp_delta
            if columns & COLUMN_KEY:
                if key_size < 0:
                    key_size = 0
                    key_nulls += 1
                    key_valid[row >> 3] &= np.uint8(~(1 << (row & 7)) & 0xFF)
                if views:
                    prefetch(key_views + row * 16 + _AHEAD_OUT_BYTES)
                    put_view(key_views + row * 16, key_at, key_size, source, source_end, buffer)
                else:
                    put(key_to + key_end, key_to_end, key_at, source_end, key_size)
                    key_end += key_size
                    key_index[row + 1] = key_end
            if columns & COLUMN_VALUE:
                if value_size < 0:
                    value_size = 0
                    value_nulls += 1
                    value_valid[row >> 3] &= np.uint8(~(1 << (row & 7)) & 0xFF)
                if views:
                    prefetch(value_views + row * 16 + _AHEAD_OUT_BYTES)
                    put_view(
                        value_views + row * 16, value_at, value_size, source, source_end, buffer
                    )
                else:
                    put(value_to + value_end, value_to_end, value_at, source_end, value_size)
                    value_end += value_size
                    value_index[row + 1] = value_end
            if columns & COLUMN_HEADERS:
                header_count += headers
                header_key_bytes += headers_key_bytes
                header_value_bytes += headers_value_bytes
                if header_count:
                    header_index[row + 1] = header_count
                    header_at[row] = headers_at - source
            row += 1
        if error == OK and at != end:
            error = TRAILING
        if error != OK:
            result[ERROR] = error
            result[ERROR_BATCH] = number
            result[ERROR_RECORD] = record
            return
        table[number, ROWS] = row - first_row
    result[ROW_COUNT] = row
    result[KEY_BYTES] = key_end
    result[VALUE_BYTES] = value_end
    result[KEY_NULLS] = key_nulls
    result[VALUE_NULLS] = value_nulls
    result[HEADER_COUNT] = header_count
    result[HEADER_KEY_BYTES] = header_key_bytes
    result[HEADER_VALUE_BYTES] = header_value_bytes
