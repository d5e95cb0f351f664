"""Decimals inside kernels: Avro's big-endian two's complement, and Arrow's little-endian words."""

import numpy as np

from headrace.records.kernel.memory import load8, load64, part, store64

_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_TOP_BIT = np.uint64(63)


@part
def read_decimal(at: int, size: int, to: int, words: int, limit: int) -> bool:
    """Write the number of `size` bytes as `words` words at `to`; return whether it lies between
    -limit and limit, the address of as many words."""
    if size <= 0:
        return False
    negative = load8(at) >= 0x80
    sign = np.uint64(0xFF) if negative else np.uint64(0)
    for place in range(words * 8, size):
        if np.uint64(load8(at + size - 1 - place)) != sign:
            return False
    word = np.uint64(0)
    for number in range(words):
        word = np.uint64(0)
        for byte in range(8):
            place = number * 8 + byte
            bits = np.uint64(load8(at + size - 1 - place)) if place < size else sign
            word |= bits << np.uint64(8 * byte)
        store64(to + 8 * number, word)
    if (word >> _TOP_BIT == np.uint64(1)) != negative:
        return False
    return is_within(to, words, limit)


@part
def is_within(at: int, words: int, limit: int) -> bool:
    """Return whether the magnitude of the number at `at` is below that at `limit`."""
    negative = load64(at + 8 * (words - 1)) >> _TOP_BIT == np.uint64(1)
    carry = np.uint64(1)
    less = False
    for number in range(words):
        word = load64(at + 8 * number)
        if negative:
            word = (word ^ _ALL_BITS) + carry
            if word != np.uint64(0):
                carry = np.uint64(0)
        bound = load64(limit + 8 * number)
        if word != bound:
            less = bool(word < bound)
    return less


@part
def decimal_bytes(at: int, words: int) -> int:
    """Return how many bytes the shortest two's complement of a number takes, at least one."""
    sign = np.uint64(0)
    if load64(at + 8 * (words - 1)) >> _TOP_BIT == np.uint64(1):
        sign = np.uint64(0xFF)
    size = words * 8
    while size > 1:
        top = np.uint64(load8(at + size - 1))
        below = np.uint64(load8(at + size - 2))
        if top != sign or (below ^ sign) >= np.uint64(0x80):
            break
        size -= 1
    return size
