"""Compaction's table of batches: stored batches in, one row of int64 for the head of each.

Theory of operation. A chunk of a segment goes through up to four steps, each a kernel:

1. `scan` turns the heads of all whole batches into one row each of a table of int64 (the columns
   are named below). Nothing after it reads a head again.
2. `first_damaged` checks the CRCs. Compaction writes new CRCs, so it must never do that over bytes
   that were already wrong: a new CRC would hide the damage.
3. `key_map.fill` puts the newest offset of every key into the open-addressing table of `OffsetMap`.
4. `batch_rewrite.judge` decides for every record whether it stays and for every batch what is done
   with it; `batch_rewrite.rebuild` writes the batches that stay into one output buffer.

Rule 1: every read and write lies inside the arrays that were passed, whatever the bytes say.
A batch that does not parse stops the kernel, which returns its row as `-1 - row`.
Rule 2: base offset, last offset delta, producer fields and, where no delete horizon is set, base
timestamp of a batch stay. Records are relative to them, so a record that stays keeps its bytes,
and neighbours that stay are copied as one run.
Rule 3: the kernels hold no GIL.
"""

from headrace.records.kernel.crc32c import crc32c
from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    int16_at,
    int32_at,
    int64,
    int64_at,
    kernel,
    load8,
    part,
)
from headrace.records.kernel.varint import read_varint

# The columns of the batch table. `scan` fills those up to BODY_END.
POSITION = 0
SIZE = 1
BASE_OFFSET = 2
LAST_OFFSET = 3
ATTRIBUTES = 4
BASE_TIMESTAMP = 5
MAX_TIMESTAMP = 6
PRODUCER_ID = 7
PRODUCER_EPOCH = 8
COUNT = 9
BODY_START = 10  # where the records lie in the body buffer; set again for an inflated batch
BODY_END = 11
PLAN = 12  # what the caller asks for, one of PLAN_*
RETAIN = 13  # 1: an emptied batch keeps its head
ACTION = 14  # what `judge` decided, one of ACTION_*
KEPT = 15  # records that stay
KEPT_MAX_TIMESTAMP = 16
FIRST_RECORD = 17  # where its records start in the record arrays
OUT_POSITION = 18
OUT_SIZE = 19  # `judge`: an upper bound; `rebuild`: the truth
COLUMNS = 20

PLAN_COPY = 0
PLAN_FILTER = 1
PLAN_DISCARD = 2
PLAN_STAMP = 3

ACTION_DROP = 0
ACTION_COPY = 1
ACTION_GATHER = 2
ACTION_STAMP = 3
ACTION_EMPTY = 4

# Repeated from records/batch.py: numba's cache does not see imported constants (`memory`, rule 3).
HEADER_BYTES = 61
LOG_OVERHEAD = 12
MIN_RECORD_BYTES = 7
CRC_START = 21
CODEC_BITS = 0x07
APPEND_TIME_BIT = 0x08
HORIZON_BIT = 0x40


@kernel
def scan(data: Bytes, size: int, batches: Int64s) -> tuple[int, int]:
    """Fill `batches` with the heads in `data[:size]`, up to the first that is cut off.

    Also stops when `batches` is full. Plans are set to copy everything.

    Returns:
        (rows, bytes they take), or (-1 - row, position) of a head that cannot be true.
    """
    start = address(data)
    row = 0
    position = 0
    while row < batches.shape[0] and position + HEADER_BYTES <= size:
        at = start + position
        length = int32_at(at + 8)
        if length < HEADER_BYTES - LOG_OVERHEAD or load8(at + 16) != 2:
            return -1 - row, position
        end = position + LOG_OVERHEAD + length
        if end > size:
            break
        base_offset = int64_at(at)
        last_delta = int32_at(at + 23)
        count = int32_at(at + 57)
        attributes = int16_at(at + 21)
        body_bytes = end - position - HEADER_BYTES
        if base_offset < 0 or last_delta < 0 or count < 0 or count > last_delta + 1:
            return -1 - row, position
        if attributes & CODEC_BITS == 0 and count > body_bytes // MIN_RECORD_BYTES:
            return -1 - row, position
        batches[row, POSITION] = position
        batches[row, SIZE] = end - position
        batches[row, BASE_OFFSET] = base_offset
        batches[row, LAST_OFFSET] = base_offset + last_delta
        batches[row, ATTRIBUTES] = attributes
        batches[row, BASE_TIMESTAMP] = int64_at(at + 27)
        batches[row, MAX_TIMESTAMP] = int64_at(at + 35)
        batches[row, PRODUCER_ID] = int64_at(at + 43)
        batches[row, PRODUCER_EPOCH] = int16_at(at + 51)
        batches[row, COUNT] = count
        batches[row, BODY_START] = position + HEADER_BYTES
        batches[row, BODY_END] = end
        batches[row, PLAN] = PLAN_COPY
        batches[row, RETAIN] = 0
        row += 1
        position = end
    return row, position


@kernel
def first_damaged(data: Bytes, batches: Int64s, rows: int) -> int:
    """Return the first row whose CRC32C does not match, or -1."""
    start = address(data)
    for row in range(rows):
        at = start + batches[row, POSITION]
        crc = crc32c(at + CRC_START, at + batches[row, SIZE])
        if crc != int32_at(at + 17) & 0xFFFFFFFF:
            return row
    return -1


@part
def record_parts(at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """Split the record at address `at`; an end of -1 says that its lengths contradict each other.

    Returns:
        (end, offset delta, timestamp delta, key start, key end, value length); the key end lies
        below its start when the key is null.
    """
    bad = (int64(-1), int64(0), int64(0), int64(0), int64(0), int64(0))
    length, at = read_varint(at, end)
    if at < 0 or length < 0 or length > end - at:
        return bad
    end = at + length
    timestamp_delta, at = read_varint(at + 1, end)
    if at < 0:
        return bad
    offset_delta, at = read_varint(at, end)
    if at < 0:
        return bad
    key_bytes, at = read_varint(at, end)
    if at < 0 or key_bytes < -1 or key_bytes > end - at:
        return bad
    key_start = at
    at += max(key_bytes, 0)
    value_bytes, at = read_varint(at, end)
    if at < 0 or value_bytes < -1 or value_bytes > end - at:
        return bad
    return end, offset_delta, timestamp_delta, key_start, key_start + key_bytes, value_bytes


@kernel
def index_points(batches: Int64s, interval: int, tail: Int64s, points: Int64s) -> int:
    """Place the index entries for batches that are appended to a segment, as Kafka does.

    `tail` carries over from call to call: bytes since the last entry, the newest timestamp so far,
    and the last offset of the batch that has it. Each row of `points` becomes (OUT_POSITION, last
    offset, newest timestamp, its offset); there must be as many rows as batches.

    Returns:
        How many points there are.
    """
    count = 0
    for row in range(batches.shape[0]):
        if batches[row, KEPT_MAX_TIMESTAMP] > tail[1]:
            tail[1] = batches[row, KEPT_MAX_TIMESTAMP]
            tail[2] = batches[row, LAST_OFFSET]
        if tail[0] > interval:
            points[count, 0] = batches[row, OUT_POSITION]
            points[count, 1] = batches[row, LAST_OFFSET]
            points[count, 2] = tail[1]
            points[count, 3] = tail[2]
            count += 1
            tail[0] = 0
        tail[0] += batches[row, OUT_SIZE]
    return count
