"""The framing loop: do the bytes behind a batch's head hold the records that its head counts?

A broker runs it for every batch that a producer sends, so it has two doors. `is_sound` says yes or
no to a batch as it lies in the request: it keeps the GIL, because giving it away costs more than
the walk. `inspect_records` works on inflated rows, names what is wrong and marks the records that a
topic does not take; it gives the GIL away.

Both must agree with `headrace.records.framing`, which does the same in plain Python until numba is
loaded; `tests/property/records/test_framing.py` compares them.
"""

from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    int16_at,
    int32_at,
    int64,
    int64_at,
    kernel,
    load32,
    part,
    short_kernel,
)
from headrace.records.kernel.varint import BAD, read_varint

# Repeated from records/framing.py and records/batch.py: numba's cache does not see imported
# constants (`memory`, rule 3).
OK = 0
BAD_LENGTH = 1
BAD_TIMESTAMP = 2
BAD_OFFSET = 3
BAD_KEY = 4
BAD_VALUE = 5
BAD_HEADERS = 6
BAD_END = 7
TRAILING = 8

NO_KEY = 1
BAD_TIME = 2

PROBLEM = 0
RECORD = 1

_MIN_RECORD_BYTES = 7
_HEADER_BYTES = 61
_ATTRIBUTES_AT = 21
_BASE_TIMESTAMP_AT = 27
_MAX_TIMESTAMP_AT = 35
_COUNT_AT = 57

_GZIP = 1
_SNAPPY = 2
_LZ4 = 3
# The first bytes of each codec's framing, as a little-endian word.
_GZIP_MAGIC = 0x8B1F
_LZ4_MAGIC = 0x184D2204
_ZSTD_MAGIC = 0xFD2FB528 - 2**32  # load32 is signed
# More records than this for each compressed byte cannot be: see `records.framing`.
_GZIP_DENSITY = 148
_SNAPPY_DENSITY = 4
_LZ4_DENSITY = 37
_ZSTD_DENSITY = 4682


@part
def read_record(at: int, end: int, delta: int) -> tuple[int, int, int, int]:
    """Return (problem, address behind the record, its timestamp delta, its key's size).

    Args:
        delta: the offset delta that it must have.
    """
    length, at = read_varint(at, end)
    if at == BAD or length < _MIN_RECORD_BYTES - 1 or length > end - at:
        return BAD_LENGTH, at, int64(0), int64(0)
    record_end = at + length
    timestamp_delta, at = read_varint(at + 1, record_end)
    if at == BAD:
        return BAD_TIMESTAMP, at, int64(0), int64(0)
    found, at = read_varint(at, record_end)
    if at == BAD or found != delta:
        return BAD_OFFSET, at, int64(0), int64(0)
    key_size, at = read_varint(at, record_end)
    if at == BAD or key_size > record_end - at or key_size < -1:
        return BAD_KEY, at, int64(0), int64(0)
    value_size, at = read_varint(at + max(key_size, 0), record_end)
    if at == BAD or value_size > record_end - at or value_size < -1:
        return BAD_VALUE, at, int64(0), int64(0)
    headers, at = read_varint(at + max(value_size, 0), record_end)
    # A header takes two bytes at least: a larger count is a lie, and would be a long loop.
    if at == BAD or headers < 0 or headers > (record_end - at) // 2:
        return BAD_HEADERS, at, int64(0), int64(0)
    for _ in range(headers):
        size, at = read_varint(at, record_end)
        if at == BAD or size < 0 or size > record_end - at:
            return BAD_HEADERS, at, int64(0), int64(0)
        size, at = read_varint(at + size, record_end)
        if at == BAD or size < -1 or size > record_end - at:
            return BAD_HEADERS, at, int64(0), int64(0)
        at += max(size, 0)
    if at != record_end:
        return BAD_END, at, int64(0), int64(0)
    return OK, at, timestamp_delta, key_size


@short_kernel
def is_sound(batch: Bytes | bytes | memoryview) -> bool:
    """Return whether a whole batch holds the records that its head counts, none of them newer than
    its max timestamp; of a compressed one, whether it can hold that many.

    Args:
        batch: the view of a batch whose head is valid, and which is as long as its head says.
    """
    start = address(batch)  # type: ignore[arg-type]
    end = start + len(batch)
    at = start + _HEADER_BYTES
    count = int32_at(start + _COUNT_AT)
    codec = int16_at(start + _ATTRIBUTES_AT) & 0x07
    if codec != 0:
        size = end - at
        if size < 4 or count < 0:
            return False
        word = int64(load32(at))
        if codec == _GZIP:
            return word & 0xFFFF == _GZIP_MAGIC and count <= size * _GZIP_DENSITY
        if codec == _SNAPPY:
            return count <= size * _SNAPPY_DENSITY
        if codec == _LZ4:
            return word == _LZ4_MAGIC and count <= size * _LZ4_DENSITY
        return word == _ZSTD_MAGIC and count <= size * _ZSTD_DENSITY
    base = int64_at(start + _BASE_TIMESTAMP_AT)
    newest = int64_at(start + _MAX_TIMESTAMP_AT)
    for delta in range(count):
        problem, at, timestamp_delta, _ = read_record(at, end, delta)
        if problem != OK or base + timestamp_delta > newest:
            return False
    return at == end


@kernel
def inspect_records(
    rows: Bytes,
    count: int,
    base_timestamp: int,
    needs_key: bool,
    oldest_ms: int,
    newest_ms: int,
    marks: Bytes,
    result: Int64s,
) -> None:
    """Walk `count` records, and mark those without a key or with a time outside the bounds.

    `result` gets the first problem of the framing and the record that has it. A problem ends the
    walk. A record without a timestamp (-1) has no bad one.
    """
    start = address(rows)
    end = start + rows.shape[0]
    at = start
    for delta in range(count):
        problem, at, timestamp_delta, key_size = read_record(at, end, delta)
        if problem != OK:
            result[PROBLEM] = problem
            result[RECORD] = delta
            return
        timestamp_ms = base_timestamp + timestamp_delta
        if needs_key and key_size < 0:
            marks[delta] = NO_KEY
        elif timestamp_ms > newest_ms or (timestamp_ms < oldest_ms and timestamp_ms != -1):
            marks[delta] = BAD_TIME
    if at != end:
        result[PROBLEM] = TRAILING
        result[RECORD] = count - 1
