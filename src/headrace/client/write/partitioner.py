"""Chooses a record's partition by the hash of its key, as Kafka's own clients do.

Rule 1: the hash takes time, so those of short keys are kept. Long keys are not: clients choose
them, and as many as are kept would take gigabytes.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_WORD: Final = Struct("<I")

KEPT_KEY_BYTES: Final = 128


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash as an unsigned number.

    >>> murmur2(b"21") - 2**32
    -973932308
    """
    value = (_SEED ^ len(data)) & _MASK
    end = len(data) & ~3
    for (number,) in _WORD.iter_unpack(data[:end]):
        word = number * _MULTIPLIER & _MASK
        word ^= word >> 24
        value = (value * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    if end < len(data):
        value ^= int.from_bytes(data[end:], "little")
        value = value * _MULTIPLIER & _MASK
    value ^= value >> 13
    value = value * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a record with this key, in a topic of so many partitions.

    >>> partition_of(b"alice", 6)
    3
    """
    if len(key) > KEPT_KEY_BYTES:
        return _computed(key, partitions)
    return _kept(key, partitions)


def _computed(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


_kept: Final = lru_cache(maxsize=65536)(_computed)
