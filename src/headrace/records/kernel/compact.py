"""Compaction's loops: stored batches in, a table of their heads, a key map and new batches out.

Theory of operation. A chunk of a segment is taken through up to four kernels:

1. `scan` turns the heads of all whole batches into one row each of a table of int64 (the columns
   are named below). Nothing after it reads a head again.
2. `first_damaged` checks the CRCs. Compaction writes new CRCs, so it must never do that over bytes
   that were already wrong: damage would become truth.
3. `fill` puts the newest offset of every key into the open-addressing table of `OffsetMap`.
4. `judge` decides for every record whether it stays and for every batch what is done with it;
   `rebuild` writes the batches that stay into one output buffer.

Rule 1: every read and write lies inside the arrays that were passed, whatever the bytes say.
A batch that does not parse stops the kernel, which answers its row as `-1 - row`.
Rule 2: base offset, last offset delta, producer fields and, where no delete horizon is set, base
timestamp of a batch stay. Records are relative to them, so a record that stays keeps its bytes,
and neighbours that stay are copied as one run.
Rule 3: the kernels hold no GIL.
"""

import numpy as np
import numpy.typing as npt

from headrace.records.kernel.crc32c import crc32c
from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    copy,
    int64,
    kernel,
    load8,
    load32,
    load64,
    part,
    store8,
    swap32,
    swap64,
)
from headrace.records.kernel.siphash import siphash128
from headrace.records.kernel.varint import read_varint, varint_bytes, write_varint

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
BODY_START = 10  # where the records lie in the body buffer; set anew for an inflated batch
BODY_END = 11
PLAN = 12  # what the caller wants done, one of PLAN_*
RETAIN = 13  # 1: an emptied batch keeps its head
ACTION = 14  # what `judge` made of the plan, one of ACTION_*
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

# The state array of an offset map.
USED = 0
CAPACITY = 1
SLOT_WORDS = 3  # two words of hash, then the offset plus one; 0 marks a free slot

HEADER_BYTES = 61
MIN_RECORD_BYTES = 7
# A new timestamp delta can be nine bytes longer, and the record's length prefix four.
STAMP_GROWTH_BYTES = 13

_LOG_OVERHEAD = 12
_CRC_START = 21
_CODEC_BITS = 0x07
_APPEND_TIME_BIT = 0x08
_HORIZON_BIT = 0x40


_U0 = np.uint64(0)
_U32 = np.uint64(32)


@part
def _read64(at: int) -> int:
    """A big-endian int64."""
    return int64(swap64(load64(at)))


@part
def _read32(at: int) -> int:
    return int64(swap32(load32(at)))


@part
def _read16(at: int) -> int:
    value = int64(load8(at)) << 8 | int64(load8(at + 1))
    return value - ((value & 0x8000) << 1)


@part
def _write(at: int, value: int, width: int) -> None:
    """A big-endian integer of `width` bytes."""
    for i in range(width):
        store8(at + i, value >> (8 * (width - 1 - i)))


@part
def _find_slot(table: npt.NDArray[np.uint64], low: np.uint64, high: np.uint64) -> int:
    """The slot that holds this hash, or the free one where it belongs.

    Linear probing; it ends because `fill` never takes the last free slot.
    """
    slots = table.shape[0]
    slot = int64(((low >> _U32) * np.uint64(slots)) >> _U32)
    while table[slot, 2] != _U0 and (table[slot, 0] != low or table[slot, 1] != high):
        slot += 1
        if slot == slots:
            slot = 0
    return slot


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
        length = _read32(at + 8)
        if length < HEADER_BYTES - _LOG_OVERHEAD or load8(at + 16) != 2:
            return -1 - row, position
        end = position + _LOG_OVERHEAD + length
        if end > size:
            break
        base_offset = _read64(at)
        last_delta = _read32(at + 23)
        count = _read32(at + 57)
        attributes = _read16(at + 21)
        body_bytes = end - position - HEADER_BYTES
        if base_offset < 0 or last_delta < 0 or count < 0 or count > last_delta + 1:
            return -1 - row, position
        if attributes & _CODEC_BITS == 0 and count > body_bytes // MIN_RECORD_BYTES:
            return -1 - row, position
        batches[row, POSITION] = position
        batches[row, SIZE] = end - position
        batches[row, BASE_OFFSET] = base_offset
        batches[row, LAST_OFFSET] = base_offset + last_delta
        batches[row, ATTRIBUTES] = attributes
        batches[row, BASE_TIMESTAMP] = _read64(at + 27)
        batches[row, MAX_TIMESTAMP] = _read64(at + 35)
        batches[row, PRODUCER_ID] = _read64(at + 43)
        batches[row, PRODUCER_EPOCH] = _read16(at + 51)
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
    """The first row whose CRC32C does not hold, or -1."""
    start = address(data)
    for row in range(rows):
        at = start + batches[row, POSITION]
        crc = crc32c(at + _CRC_START, at + batches[row, SIZE])
        if crc != _read32(at + 17) & 0xFFFFFFFF:
            return row
    return -1


@part
def _record(at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """The parts of the record at address `at`, or an end of -1 when it does not hold together.

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
def fill(
    body: Bytes,
    batches: Int64s,
    first: int,
    last: int,
    start_offset: int,
    key0: np.uint64,
    key1: np.uint64,
    table: npt.NDArray[np.uint64],
    state: Int64s,
) -> tuple[int, int]:
    """Map the keys of rows `first` to `last` (exclusive) whose plan is to filter them.

    Records below `start_offset` and records without a key are left out.

    Returns:
        (row, offset): the first row that is not mapped completely and the first offset in it that
        is not mapped: the map was full. (`last`, -1) when all went in, (-1 - row, -1) for a row
        that does not parse.
    """
    body_at = address(body)
    for row in range(first, last):
        if batches[row, PLAN] != PLAN_FILTER:
            continue
        at = body_at + batches[row, BODY_START]
        end = body_at + batches[row, BODY_END]
        base_offset = batches[row, BASE_OFFSET]
        span = batches[row, LAST_OFFSET] - base_offset
        for _ in range(batches[row, COUNT]):
            at, delta, _timestamp, key_start, key_end, _value = _record(at, end)
            if at < 0 or delta < 0 or delta > span:
                return -1 - row, -1
            offset = base_offset + delta
            if key_end < key_start or offset < start_offset:
                continue
            low, high = siphash128(key_start, key_end, key0, key1)
            slot = _find_slot(table, low, high)
            if table[slot, 2] == _U0:
                if state[USED] >= state[CAPACITY]:
                    return row, offset
                state[USED] += 1
                table[slot, 0] = low
                table[slot, 1] = high
            if table[slot, 2] <= np.uint64(offset):
                table[slot, 2] = np.uint64(offset + 1)
        if at != end:
            return -1 - row, -1
    return last, -1


@kernel
def newest_offset(
    key: Bytes, key0: np.uint64, key1: np.uint64, table: npt.NDArray[np.uint64]
) -> int:
    """What is mapped for a key, or -1."""
    low, high = siphash128(address(key), address(key) + key.shape[0], key0, key1)
    return int64(table[_find_slot(table, low, high), 2]) - 1


@kernel
def judge(
    body: Bytes,
    batches: Int64s,
    first: int,
    last: int,
    end_offset: int,
    now_ms: int,
    key0: np.uint64,
    key1: np.uint64,
    table: npt.NDArray[np.uint64],
    record_ends: Int64s,
    kept: Bytes,
) -> int:
    """Turn the plans of rows `first` to `last` (exclusive) into actions.

    A record stays when it lies at or past `end_offset` (the map knows nothing of those), or when
    it has a key, no newer record of that key is mapped, and it is not a tombstone whose batch's
    delete horizon has passed (KIP-534). `record_ends` (positions in `body`) and `kept` get one
    entry for each record of the batches that are opened.

    Returns:
        The entries written to the record arrays, or -1 - row for a row that does not parse.
    """
    body_at = address(body)
    entry = 0
    for row in range(first, last):
        plan = batches[row, PLAN]
        count = batches[row, COUNT]
        batches[row, FIRST_RECORD] = entry
        batches[row, OUT_SIZE] = batches[row, SIZE]
        batches[row, KEPT] = count
        batches[row, ACTION] = ACTION_COPY
        if plan == PLAN_COPY:
            continue
        if plan == PLAN_DISCARD:
            _empty(batches, row)
            continue
        at = body_at + batches[row, BODY_START]
        end = body_at + batches[row, BODY_END]
        base_offset = batches[row, BASE_OFFSET]
        span = batches[row, LAST_OFFSET] - base_offset
        horizon_set = batches[row, ATTRIBUTES] & _HORIZON_BIT != 0
        horizon_passed = horizon_set and batches[row, BASE_TIMESTAMP] <= now_ms
        stays = 0
        tombstones = 0
        max_delta = int64(-(2**63))
        for _ in range(count):
            at, delta, timestamp, key_start, key_end, value_bytes = _record(at, end)
            if at < 0 or delta < 0 or delta > span:
                return -1 - row
            offset = base_offset + delta
            keep = True
            if plan == PLAN_FILTER and offset < end_offset:
                keep = False
                if key_end >= key_start and (value_bytes >= 0 or not horizon_passed):
                    low, high = siphash128(key_start, key_end, key0, key1)
                    # A free slot holds 0: no newer record is known.
                    keep = np.uint64(offset + 1) >= table[_find_slot(table, low, high), 2]
                    if keep and value_bytes < 0:
                        tombstones += 1
            if keep:
                stays += 1
                max_delta = max(max_delta, timestamp)
            record_ends[entry] = at - body_at
            kept[entry] = keep
            entry += 1
        if at != end:
            return -1 - row
        batches[row, KEPT] = stays
        if stays == 0:
            _empty(batches, row)
            continue
        if batches[row, ATTRIBUTES] & _APPEND_TIME_BIT:
            batches[row, KEPT_MAX_TIMESTAMP] = batches[row, MAX_TIMESTAMP]
        else:
            batches[row, KEPT_MAX_TIMESTAMP] = batches[row, BASE_TIMESTAMP] + max_delta
        if not horizon_set and (plan == PLAN_STAMP or tombstones > 0):
            batches[row, ACTION] = ACTION_STAMP
            batches[row, OUT_SIZE] += STAMP_GROWTH_BYTES * count
        elif stays < count:
            batches[row, ACTION] = ACTION_GATHER
    return entry


@part
def _empty(batches: Int64s, row: int) -> None:
    """Nothing of the batch stays but, if it is to be retained, its head."""
    batches[row, KEPT] = 0
    if batches[row, RETAIN] == 0:
        batches[row, ACTION] = ACTION_DROP
        batches[row, OUT_SIZE] = 0
    elif batches[row, COUNT] > 0:
        batches[row, ACTION] = ACTION_EMPTY
        batches[row, OUT_SIZE] = HEADER_BYTES


@kernel
def rebuild(
    data: Bytes,
    body: Bytes,
    batches: Int64s,
    first: int,
    last: int,
    horizon_ms: int,
    record_ends: Int64s,
    kept: Bytes,
    out: Bytes,
    out_position: int,
) -> int:
    """Write what stays of rows `first` to `last` (exclusive) to `out` from `out_position` on.

    `out` has room for the sum of OUT_SIZE, which this turns from a bound into the truth. A batch
    that is not copied as it is comes out uncompressed under a head that still names its codec; the
    caller has made room for that and compresses it.

    Returns:
        The position behind the last byte written.
    """
    data_at = address(data)
    out_at = address(out)
    at = out_at + out_position
    for row in range(first, last):
        action = batches[row, ACTION]
        batches[row, OUT_POSITION] = at - out_at
        source = data_at + batches[row, POSITION]
        if action == ACTION_DROP:
            continue
        if action == ACTION_COPY:
            copy(at, source, batches[row, SIZE])
            at += batches[row, SIZE]
            continue
        copy(at, source, HEADER_BYTES)
        attributes = batches[row, ATTRIBUTES]
        base_timestamp = batches[row, BASE_TIMESTAMP]
        max_timestamp = batches[row, KEPT_MAX_TIMESTAMP]
        end = at + HEADER_BYTES
        if action == ACTION_EMPTY:
            attributes &= ~(_CODEC_BITS | _HORIZON_BIT)
            base_timestamp = int64(-1)
            max_timestamp = batches[row, MAX_TIMESTAMP]
        elif action == ACTION_STAMP:
            attributes |= _HORIZON_BIT
            shift = base_timestamp - horizon_ms
            end = _stamp_records(address(body), batches, row, shift, record_ends, kept, end)
            base_timestamp = horizon_ms
        else:
            end = _gather_records(address(body), batches, row, record_ends, kept, end)
        _write(at + 8, end - at - _LOG_OVERHEAD, 4)
        _write(at + 21, attributes, 2)
        _write(at + 27, base_timestamp, 8)
        _write(at + 35, max_timestamp, 8)
        _write(at + 57, batches[row, KEPT], 4)
        _write(at + 17, crc32c(at + _CRC_START, end), 4)
        batches[row, OUT_SIZE] = end - at
        at = end
    return at - out_at


@part
def _gather_records(
    body_at: int, batches: Int64s, row: int, record_ends: Int64s, kept: Bytes, to: int
) -> int:
    """Copy the records that stay, each run of neighbours at once; the address behind them."""
    start = batches[row, BODY_START]
    run_start = start
    entry = batches[row, FIRST_RECORD]
    for i in range(entry, entry + batches[row, COUNT]):
        end = record_ends[i]
        if not kept[i]:
            if start > run_start:
                copy(to, body_at + run_start, start - run_start)
                to += start - run_start
            run_start = end
        start = end
    if start > run_start:
        copy(to, body_at + run_start, start - run_start)
        to += start - run_start
    return to


@part
def _stamp_records(
    body_at: int, batches: Int64s, row: int, shift: int, record_ends: Int64s, kept: Bytes, to: int
) -> int:
    """Write the records that stay relative to a base timestamp that lies `shift` before the old."""
    start = body_at + batches[row, BODY_START]
    entry = batches[row, FIRST_RECORD]
    for i in range(entry, entry + batches[row, COUNT]):
        end = body_at + record_ends[i]
        if kept[i]:
            _length, at = read_varint(start, end)
            delta, rest = read_varint(at + 1, end)
            delta += shift
            to = write_varint(to, 1 + varint_bytes(delta) + end - rest)
            store8(to, int64(load8(at)))
            to = write_varint(to + 1, delta)
            copy(to, rest, end - rest)
            to += end - rest
        start = end
    return to


@kernel
def index_points(batches: Int64s, interval: int, tail: Int64s, points: Int64s) -> int:
    """The index entries for batches that are appended to a segment (as Kafka places them).

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
