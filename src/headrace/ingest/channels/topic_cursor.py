"""Which records of a topic were taken, and up to where all of them were delivered.

Takers commit in any order, and a group's offset says "everything before it". So each partition
keeps what is still out, and its offset to commit is the lowest of that.
"""

from collections.abc import Iterable
from typing import NamedTuple

PartitionKey = tuple[str, int]


class TakenRange(NamedTuple):
    """Offsets of one partition that were taken together: `first` up to, and without, `end`."""

    place: PartitionKey
    first: int
    end: int


class TopicCursor:
    """Pure bookkeeping; the caller holds a lock.

    >>> cursor = TopicCursor()
    >>> early, late = TakenRange(("t", 0), 0, 5), TakenRange(("t", 0), 5, 9)
    >>> cursor.taken([early, late])
    >>> cursor.done([late]), cursor.done([early])
    ({}, {('t', 0): 9})
    """

    def __init__(self) -> None:
        self._out: dict[PartitionKey, list[TakenRange]] = {}
        self._end: dict[PartitionKey, int] = {}

    def taken(self, spans: Iterable[TakenRange]) -> None:
        for span in spans:
            self._out.setdefault(span.place, []).append(span)
            self._end[span.place] = max(span.end, self._end.get(span.place, 0))

    def done(self, spans: Iterable[TakenRange]) -> dict[PartitionKey, int]:
        """The offsets that can be committed now because these were delivered."""
        moved: dict[PartitionKey, int] = {}
        for span in spans:
            out = self._out.get(span.place, [])
            if span not in out:
                continue  # its partition was given to somebody else meanwhile
            before = min(each.first for each in out)
            out.remove(span)
            now = min((each.first for each in out), default=self._end[span.place])
            if now > before:
                moved[span.place] = now
        return moved

    def replace(self, span: TakenRange, pieces: Iterable[TakenRange]) -> None:
        """A span that was taken is given out in pieces."""
        out = self._out.get(span.place, [])
        if span in out:
            out.remove(span)
            out += pieces

    def lost(self, places: Iterable[PartitionKey]) -> None:
        """Partitions that are not ours any more."""
        for place in places:
            self._out.pop(place, None)
            self._end.pop(place, None)
