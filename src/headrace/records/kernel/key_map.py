"""The table of `OffsetMap`: the newest offset of each key, by open addressing.

Rows are batches of `batch_table`, whose rules hold here too.
"""

import numpy as np
import numpy.typing as npt

from headrace.records.kernel.batch_table import (
    BASE_OFFSET,
    BODY_END,
    BODY_START,
    COUNT,
    LAST_OFFSET,
    PLAN,
    PLAN_FILTER,
    record_parts,
)
from headrace.records.kernel.memory import Bytes, Int64s, address, int64, kernel, part
from headrace.records.kernel.siphash import siphash128

# The state array of an offset map.
USED = 0
CAPACITY = 1
SLOT_WORDS = 3  # two words of hash, then the offset plus one; 0 marks a free slot

_U0 = np.uint64(0)
_U32 = np.uint64(32)


@part
def find_slot(table: npt.NDArray[np.uint64], low: np.uint64, high: np.uint64) -> int:
    """Return the slot that holds this hash, or the free one where it belongs.

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
            at, delta, _timestamp, key_start, key_end, _value = record_parts(at, end)
            if at < 0 or delta < 0 or delta > span:
                return -1 - row, -1
            offset = base_offset + delta
            if key_end < key_start or offset < start_offset:
                continue
            low, high = siphash128(key_start, key_end, key0, key1)
            slot = find_slot(table, low, high)
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
    """Return the offset that is mapped for a key, or -1."""
    low, high = siphash128(address(key), address(key) + key.shape[0], key0, key1)
    return int64(table[find_slot(table, low, high), 2]) - 1
