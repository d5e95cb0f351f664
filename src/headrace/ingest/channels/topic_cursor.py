"""The offsets to commit for a Kafka channel.

Transactions commit in any order, but a committed offset means "everything before it". So each
partition keeps its ranges in open transactions, and the offset to commit is the lowest of them.
"""

from collections.abc import Iterable
from typing import NamedTuple

PartitionKey = tuple[str, int]
"""A topic and the number of a partition."""


class TakenRange(NamedTuple):
    """Offsets of one partition that were taken together: `first` up to `end`, which is left out."""

    partition: PartitionKey
    first: int
    end: int


class TopicCursor:
    """Tracks taken ranges. It does no I/O; the caller holds a lock.

    >>> cursor = TopicCursor()
    >>> early, late = TakenRange(("t", 0), 0, 5), TakenRange(("t", 0), 5, 9)
    >>> cursor.taken([early, late])
    >>> cursor.done([late]), cursor.done([early])
    ({}, {('t', 0): 9})
    """

    def __init__(self) -> None:
        self._out: dict[PartitionKey, list[TakenRange]] = {}
        self._end: dict[PartitionKey, int] = {}

    def taken(self, ranges: Iterable[TakenRange]) -> None:
        """Add ranges that a transaction has taken."""
        for each in ranges:
            self._out.setdefault(each.partition, []).append(each)
            self._end[each.partition] = max(each.end, self._end.get(each.partition, 0))

    def done(self, ranges: Iterable[TakenRange]) -> dict[PartitionKey, int]:
        """Remove delivered ranges, and return the offsets that can be committed now."""
        moved: dict[PartitionKey, int] = {}
        for delivered in ranges:
            out = self._out.get(delivered.partition, [])
            if delivered not in out:
                continue  # another member owns its partition now
            before = min(each.first for each in out)
            out.remove(delivered)
            now = min((each.first for each in out), default=self._end[delivered.partition])
            if now > before:
                moved[delivered.partition] = now
        return moved

    def split(self, whole: TakenRange, pieces: Iterable[TakenRange]) -> None:
        """Replace a taken range by its pieces."""
        out = self._out.get(whole.partition, [])
        if whole in out:
            out.remove(whole)
            out += pieces

    def forget(self, partitions: Iterable[PartitionKey]) -> None:
        """Drop the ranges of partitions that another member owns now."""
        for partition in partitions:
            self._out.pop(partition, None)
            self._end.pop(partition, None)
