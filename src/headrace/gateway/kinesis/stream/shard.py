"""One shard: a partition's offsets from `first` to `last`, for a range of hash keys."""

import re
from dataclasses import dataclass
from typing import Any, Final

from headrace.gateway.kinesis.identity.sequence_number import SequenceNumber
from headrace.gateway.kinesis.stream.hash_key import HashRange

NO_PARTITION: Final = -1
"""Of a shard that was closed as soon as it was opened, on the way to another shard count."""

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
        return str(SequenceNumber.of(self.created_ms, self.number, offset, time_ms))

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
        start, end = raw["keys"]
        return cls(**{**raw, "keys": HashRange(int(start), int(end))})


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def shard_number(text: str) -> int | None:
    """Return the number in a shard's id, or None for another text."""
    found = _ID.fullmatch(text)
    return None if found is None else int(found[1])
