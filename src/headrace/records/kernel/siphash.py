"""SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a hash under a secret key.

Without the key no one can find two inputs with the same hash, even with inputs of their choice.
"""

import numpy as np

from headrace.records.kernel.memory import Bytes, address, kernel, load8, load64, part

_U0 = np.uint64(0)
_U8 = np.uint64(8)
_U16 = np.uint64(16)
_U32 = np.uint64(32)
_U56 = np.uint64(56)


@part
def _rotate(word: np.uint64, left: np.uint64) -> np.uint64:
    return (word << left) | (word >> (np.uint64(64) - left))


@part
def _sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 += v1
    v1 = _rotate(v1, np.uint64(13)) ^ v0
    v0 = _rotate(v0, _U32)
    v2 += v3
    v3 = _rotate(v3, _U16) ^ v2
    v0 += v3
    v3 = _rotate(v3, np.uint64(21)) ^ v0
    v2 += v1
    v1 = _rotate(v1, np.uint64(17)) ^ v2
    v2 = _rotate(v2, _U32)
    return v0, v1, v2, v3


@part
def siphash128(
    start: int, end: int, key0: np.uint64, key1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Hash the bytes between two addresses, into two words."""
    v0 = np.uint64(0x736F6D6570736575) ^ key0
    v1 = np.uint64(0x646F72616E646F6D) ^ key1 ^ np.uint64(0xEE)
    v2 = np.uint64(0x6C7967656E657261) ^ key0
    v3 = np.uint64(0x7465646279746573) ^ key1
    at = start
    while at + 8 <= end:
        word = load64(at)
        v3 ^= word
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = np.uint64(end - start) << _U56
    shift = _U0
    while at < end:
        word |= np.uint64(load8(at)) << shift
        shift += _U8
        at += 1
    v3 ^= word
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel
def siphash128_of(data: Bytes, key0: np.uint64, key1: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Hash a whole array."""
    return siphash128(address(data), address(data) + data.shape[0], key0, key1)
