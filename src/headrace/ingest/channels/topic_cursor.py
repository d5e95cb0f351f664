"""Which records of a topic were taken, and up to where all of them were delivered.

Takers commit in any order, and a group's offset says "everything before it". So each partition
keeps what is still out, and its offset to commit is the lowest of that.
"""

from collections.abc import Iterable
from typing import NamedTuple

Place = tuple[str, int]


class Span(NamedTuple):
    """Offsets of one partition that were taken together: `first` up to, and without, `end`."""

    place: Place
    first: int
    end: int


class TopicCursor:
    """Pure bookkeeping; the caller holds a lock.

    >>> cursor = TopicCursor()
    >>> early, late = Span(("t", 0), 0, 5), Span(("t", 0), 5, 9)
    >>> cursor.taken([early, late])
    >>> cursor.done([late]), cursor.done([early])
    ({}, {('t', 0): 9})
    """

    def __init__(self) -> None:
        self._out: dict[Place, list[Span]] = {}
        self._end: dict[Place, int] = {}

    def taken(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self._out.setdefault(span.place, []).append(span)
            self._end[span.place] = max(span.end, self._end.get(span.place, 0))

    def done(self, spans: Iterable[Span]) -> dict[Place, int]:
        """The offsets that can be committed now because these were delivered."""
        moved: dict[Place, int] = {}
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

    def replace(self, span: Span, pieces: Iterable[Span]) -> None:
        """A span that was taken is given out in pieces."""
        out = self._out.get(span.place, [])
        if span in out:
            out.remove(span)
            out += pieces

    def lost(self, places: Iterable[Place]) -> None:
        """Partitions that are not ours any more."""
        for place in places:
            self._out.pop(place, None)
            self._end.pop(place, None)
