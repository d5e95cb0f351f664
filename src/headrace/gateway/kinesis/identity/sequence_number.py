"""Sequence numbers in the service's layout of 56 digits, with the offset inside.

    hex digits   1    9                 1           16      2     9               8      1
                "2"  shard created, s  shard & 15  offset  "00"  record time, s  shard  "2"

"01" instead of "00" names the position before the record at this offset, which may not exist yet.

As a number it grows with the offset inside a shard. A child shard is created at least a second
after its parents, so all of its numbers are greater than theirs.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_HEX_DIGITS: Final = 47
_MOST_SECONDS: Final = 16**9 - 1
_LARGEST_OFFSET: Final = 2**63 - 1
_TIME_BIT: Final = 36
_BEFORE_BIT: Final = _TIME_BIT + 36
_OFFSET_BIT: Final = _BEFORE_BIT + 8
_SHARD_BIT: Final = _OFFSET_BIT + 64


@dataclass(frozen=True, slots=True)
class SequenceNumber:
    """The parts of a sequence number.

    Attributes:
        before: the position before the record, not the record itself.

    >>> number = SequenceNumber(created_s=1_700_000_000, shard=3, offset=41, time_s=1_700_000_007)
    >>> str(number), SequenceNumber.parse(str(number)) == number
    ('49646437577175378652512468275300102539007575037992501298', True)
    """

    created_s: int
    shard: int
    offset: int
    time_s: int
    before: bool = False

    @classmethod
    def of(cls, created_ms: int, shard: int, offset: int, time_ms: int) -> "SequenceNumber":
        """Build one from times in milliseconds. A record of a plain topic may have any time."""
        return cls(_seconds(created_ms), shard, offset, _seconds(time_ms))

    def __str__(self) -> str:
        of_shard = _of_shard(self.created_s, self.shard)
        return str(
            of_shard
            | self.offset << _OFFSET_BIT
            | self.before << _BEFORE_BIT
            | self.time_s << _TIME_BIT
        )

    @classmethod
    def parse(cls, text: str) -> "SequenceNumber | None":
        """Return the parts, or None for a text that `str` cannot have made."""
        if not (text.isascii() and text.isdigit()) or len(text) > 60:
            return None
        digits = f"{int(text):x}"
        if len(digits) != _HEX_DIGITS or digits[0] != "2" or digits[-1] != "2":
            return None
        if digits[27:29] not in ("00", "01"):
            return None
        created, low, offset, time, shard = (
            int(digits[start:end], 16)
            for start, end in ((1, 10), (10, 11), (11, 27), (29, 38), (38, 46))
        )
        if shard & 15 != low or offset > _LARGEST_OFFSET:
            return None
        return cls(created, shard, offset, time, digits[27:29] == "01")


def sequence_number(created_ms: int, shard: int, offset: int, time_ms: int) -> str:
    """Return `str(SequenceNumber.of(...))`, for requests that have hundreds of records."""
    of_shard = _of_shard(_seconds(created_ms), shard)
    return str(of_shard | offset << _OFFSET_BIT | _seconds(time_ms) << _TIME_BIT)


@lru_cache(4096)
def _of_shard(created_s: int, shard: int) -> int:
    """Return what the numbers of a shard have in common."""
    head = (2 << 36 | created_s) << 4 | shard & 15
    return head << _SHARD_BIT | shard << 4 | 2


def _seconds(ms: int) -> int:
    return min(max(ms // 1000, 0), _MOST_SECONDS)
