"""One shard: a partition's offsets from `first` to `last`, for a range of hash keys."""

import re
from dataclasses import dataclass
from typing import Any, Final

from headrace.gateway.kinesis.identity.sequence_number import SequenceNumber, sequence_number
from headrace.gateway.kinesis.stream.hash_key import LARGEST, HashRange

NO_PARTITION: Final = -1
"""Of a shard that was closed as soon as it was opened, on the way to another shard count."""

_MOST: Final = 2**63 - 1
_LONGEST_KEY: Final = len(str(LARGEST))
_ID: Final = re.compile(r"shardId-(\d{12})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard, open or closed.

    Attributes:
        created_ms: later than that of its parents by a second at least, so that its sequence
            numbers are greater than theirs.
        first: the first offset that belongs to it.
        last: the offset behind its last record, or None while it is open.
    """

    number: int
    partition: int
    keys: HashRange
    created_ms: int
    parent: int | None = None
    adjacent_parent: int | None = None
    first: int = 0
    last: int | None = None
    closed_ms: int | None = None

    @property
    def id(self) -> str:
        return shard_id(self.number)

    @property
    def is_open(self) -> bool:
        return self.last is None

    @property
    def parents(self) -> list[int]:
        return [each for each in (self.parent, self.adjacent_parent) if each is not None]

    def sequence_number(self, offset: int, time_ms: int) -> str:
        """Return the sequence number of a record."""
        return sequence_number(self.created_ms, self.number, offset, time_ms)

    def position_before(self, offset: int) -> str:
        """Return the sequence number of the position before a record, which may not exist yet."""
        created_s = SequenceNumber.of(self.created_ms, self.number, offset, 0).created_s
        return str(SequenceNumber(created_s, self.number, offset, 0, before=True))

    @property
    def starting_sequence_number(self) -> str:
        return self.sequence_number(self.first, self.created_ms)

    @property
    def ending_sequence_number(self) -> str | None:
        """The greatest number that a record of the shard can have, of a closed shard."""
        if self.last is None:
            return None
        last = max(self.first, self.last - 1)
        return self.sequence_number(last, self.closed_ms or self.created_ms)

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "partition": self.partition,
            "keys": [str(each) for each in self.keys],
            "created_ms": self.created_ms,
            "parent": self.parent,
            "adjacent_parent": self.adjacent_parent,
            "first": self.first,
            "last": self.last,
            "closed_ms": self.closed_ms,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Shard":
        """Read what `as_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        start, end = (_whole(int(_text(each)), LARGEST) for each in raw["keys"])
        shard = cls(**{**raw, "keys": HashRange(start, end)})
        _whole(shard.partition + 1)
        for number in (shard.number, shard.created_ms, shard.first):
            _whole(number)
        for optional in (shard.parent, shard.adjacent_parent, shard.last, shard.closed_ms):
            if optional is not None:
                _whole(optional)
        return shard


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > _LONGEST_KEY:
        raise ValueError("a hash key is a text of decimal digits")
    return value


def _whole(value: Any, most: int = _MOST) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"a shard has numbers of 0 to {most}")
    return value


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def shard_number(text: str) -> int | None:
    """Return the number in a shard's id, or None for another text."""
    found = _ID.fullmatch(text)
    return None if found is None else int(found[1])
