"""Kafka's 32-bit murmur2 of every key of a column, and the partition that follows from it.

Rule 1: the numbers are those of Java's `Utils.murmur2` and of librdkafka's `murmur2_random`: a key
that went to another partition than in their records would lose its order for readers.
Rule 2: offsets that come from Arrow are checked against the bytes they point into.
"""

from headrace.records.kernel.memory import (
    Bytes,
    Int32s,
    Int64s,
    address,
    int64,
    kernel,
    load8,
    load32,
)
from headrace.records.kernel.write import is_valid

NO_KEY = -1
OK = -1

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


@kernel
def place_keys(
    key_index: Int64s,
    key_bytes: Bytes,
    key_valid: Bytes,
    key_bit: int,
    partitions: int,
    out: Int32s,
) -> int:
    """Write each key's partition, or `NO_KEY` for a null, into `out`.

    Returns:
        `OK`, or the first row whose offsets lie outside the column's bytes.
    """
    start = address(key_bytes)
    size_of_all = key_bytes.shape[0]
    bitmap = address(key_valid) if key_valid.shape[0] else 0
    for row in range(out.shape[0]):
        if not is_valid(bitmap, key_bit + row):
            out[row] = NO_KEY
            continue
        begin = key_index[row]
        size = key_index[row + 1] - begin
        if begin < 0 or size < 0 or begin + size > size_of_all:
            return row
        # Products of two 32-bit numbers stay below 2^64, so int64 keeps their low 32 bits.
        value = int64(_SEED) ^ (size & _MASK)
        at = start + begin
        whole = at + (size & ~int64(3))
        while at < whole:
            word = (int64(load32(at)) & _MASK) * _MULTIPLIER & _MASK
            word ^= word >> 24
            value = (value * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
            at += 4
        left = size & 3
        if left:
            if left == 3:
                value ^= int64(load8(at + 2)) << 16
            if left >= 2:
                value ^= int64(load8(at + 1)) << 8
            value ^= int64(load8(at))
            value = value * _MULTIPLIER & _MASK
        value ^= value >> 13
        value = value * _MULTIPLIER & _MASK
        value ^= value >> 15
        out[row] = (value & 0x7FFFFFFF) % partitions
    return OK
