"""What stays of each batch, and the batches that are written in its place.

Rows are batches of `batch_table`, whose rules hold here too.
"""

import numpy as np
import numpy.typing as npt

from headrace.records.kernel.batch_table import (
    ACTION,
    ACTION_COPY,
    ACTION_DROP,
    ACTION_EMPTY,
    ACTION_GATHER,
    ACTION_STAMP,
    APPEND_TIME_BIT,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BODY_END,
    BODY_START,
    CODEC_BITS,
    COUNT,
    CRC_START,
    FIRST_RECORD,
    HEADER_BYTES,
    HORIZON_BIT,
    KEPT,
    KEPT_MAX_TIMESTAMP,
    LAST_OFFSET,
    LOG_OVERHEAD,
    MAX_TIMESTAMP,
    OUT_POSITION,
    OUT_SIZE,
    PLAN,
    PLAN_COPY,
    PLAN_DISCARD,
    PLAN_FILTER,
    PLAN_STAMP,
    POSITION,
    RETAIN,
    SIZE,
    record_parts,
)
from headrace.records.kernel.crc32c import crc32c
from headrace.records.kernel.key_map import find_slot
from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    copy,
    int64,
    kernel,
    load8,
    part,
    store8,
)
from headrace.records.kernel.siphash import siphash128
from headrace.records.kernel.varint import read_varint, varint_bytes, write_varint

# A new timestamp delta can be nine bytes longer, and the record's length prefix four.
STAMP_GROWTH_BYTES = 13


@part
def _write(at: int, value: int, width: int) -> None:
    """Write a big-endian integer of `width` bytes."""
    for i in range(width):
        store8(at + i, value >> (8 * (width - 1 - i)))


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
        horizon_set = batches[row, ATTRIBUTES] & HORIZON_BIT != 0
        horizon_passed = horizon_set and batches[row, BASE_TIMESTAMP] <= now_ms
        stays = 0
        tombstones = 0
        max_delta = int64(-(2**63))
        for _ in range(count):
            at, delta, timestamp, key_start, key_end, value_bytes = record_parts(at, end)
            if at < 0 or delta < 0 or delta > span:
                return -1 - row
            offset = base_offset + delta
            keep = True
            if plan == PLAN_FILTER and offset < end_offset:
                keep = False
                if key_end >= key_start and (value_bytes >= 0 or not horizon_passed):
                    low, high = siphash128(key_start, key_end, key0, key1)
                    # A free slot holds 0: no newer record is known.
                    keep = np.uint64(offset + 1) >= table[find_slot(table, low, high), 2]
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
        if batches[row, ATTRIBUTES] & APPEND_TIME_BIT:
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
    """Drop all of a batch but, if it is to be retained, its head."""
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
            attributes &= ~(CODEC_BITS | HORIZON_BIT)
            base_timestamp = int64(-1)
            max_timestamp = batches[row, MAX_TIMESTAMP]
        elif action == ACTION_STAMP:
            attributes |= HORIZON_BIT
            shift = base_timestamp - horizon_ms
            end = _stamp_records(address(body), batches, row, shift, record_ends, kept, end)
            base_timestamp = horizon_ms
        else:
            end = _gather_records(address(body), batches, row, record_ends, kept, end)
        _write(at + 8, end - at - LOG_OVERHEAD, 4)
        _write(at + 21, attributes, 2)
        _write(at + 27, base_timestamp, 8)
        _write(at + 35, max_timestamp, 8)
        _write(at + 57, batches[row, KEPT], 4)
        _write(at + 17, crc32c(at + CRC_START, end), 4)
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
