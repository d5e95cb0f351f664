"""Copies strings from where they lie in the values into a column of their own."""

import numpy as np

from headrace.records.kernel.memory import (
    Bytes,
    Int32s,
    Int64s,
    address,
    int64,
    kernel,
    load64,
    put,
)

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@kernel
def measure(places: Int64s, offsets: Int32s) -> int:
    """Write where each string begins in the column, and return the bytes of all."""
    at = address(places)
    total = int64(0)
    offsets[0] = 0
    for entry in range(places.shape[0]):
        total += int64(load64(at + 8 * entry) >> _HALF)
        offsets[entry + 1] = total
    return total


@kernel
def gather(data: Bytes, places: Int64s, to: Bytes) -> None:
    """Copy each string, one behind the other, to `to`, which has room for exactly all of them."""
    base = address(data)
    data_end = base + data.shape[0]
    at = address(places)
    out = address(to)
    out_end = out + to.shape[0]
    for entry in range(places.shape[0]):
        place = load64(at + 8 * entry)
        size = int64(place >> _HALF)
        put(out, out_end, base + int64(place & _LOW_HALF), data_end, size)
        out += size
