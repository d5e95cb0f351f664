"""Hash keys: 128-bit numbers that decide which shard a record goes to."""

import hashlib
from typing import Final, NamedTuple

LARGEST: Final = 2**128 - 1


class HashRange(NamedTuple):
    """The hash keys of a shard, both ends included."""

    start: int
    end: int

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self.start <= key <= self.end


def hash_key(partition_key: str) -> int:
    """Return the hash key of a partition key: MD5 of its UTF-8 bytes."""
    return int.from_bytes(
        hashlib.md5(partition_key.encode(), usedforsecurity=False).digest(), "big"
    )


def uniform_ranges(count: int) -> list[HashRange]:
    """Divide all hash keys into ranges of the same size; the last one takes the remainder.

    >>> [hex(each.start)[:4] for each in uniform_ranges(4)]
    ['0x0', '0x40', '0x80', '0xc0']
    """
    step = (LARGEST + 1) // count
    starts = [step * at for at in range(count)]
    ends = [start - 1 for start in starts[1:]] + [LARGEST]
    return [HashRange(*each) for each in zip(starts, ends, strict=True)]
