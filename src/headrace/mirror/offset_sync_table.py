"""Translates a group's offsets from the source to the target.

Rule 1: a translated offset never skips a record. It is that of the nearest sync at or before the
        group's offset, plus one if the group is past it: what follows the sync may have lost
        records to compaction or got markers.
Rule 2: what is kept is bounded. The newest and the oldest sync are always there; those between
        get rarer the further they lie back, each about twice as far, 64 in all.
Rule 3: a sync that goes back begins a new table: the topic at either side was made again.
"""

from bisect import bisect_right
from typing import Final

from headrace.mirror.format.offset_sync import OffsetSync

MOST_SYNCS: Final = 64


class OffsetSyncTable:
    """The syncs of one partition, oldest first.

    Invariant: upstream offsets and offsets both increase strictly.
    """

    def __init__(self) -> None:
        self._upstream: list[int] = []
        self._offsets: list[int] = []

    def add(self, sync: OffsetSync) -> None:
        """Add a newer sync."""
        if self._upstream and (
            sync.upstream_offset <= self._upstream[-1] or sync.offset <= self._offsets[-1]
        ):
            if (sync.upstream_offset, sync.offset) == (self._upstream[-1], self._offsets[-1]):
                return
            self._upstream, self._offsets = [], []
        self._upstream.append(sync.upstream_offset)
        self._offsets.append(sync.offset)
        self._thin_out()

    def translate(self, upstream_offset: int) -> int | None:
        """Return where a group goes on at the target; None when it was there before the mirror."""
        row = bisect_right(self._upstream, upstream_offset) - 1
        if row < 0:
            return None
        return self._offsets[row] + (1 if upstream_offset > self._upstream[row] else 0)

    @property
    def syncs(self) -> list[tuple[int, int]]:
        """Return the pairs of upstream offset and offset, oldest first."""
        return list(zip(self._upstream, self._offsets, strict=True))

    def _thin_out(self) -> None:
        """Drop each sync whose older neighbour lies at most twice as far back as its newer one."""
        upstream = self._upstream
        newest = upstream[-1]
        kept = [len(upstream) - 1]
        for row in range(len(upstream) - 2, 0, -1):
            if newest - upstream[row - 1] > 2 * (newest - upstream[kept[-1]]):
                kept.append(row)
        if len(upstream) > 1:
            kept.append(0)
        kept = [*kept[: MOST_SYNCS - 1], *kept[MOST_SYNCS - 1 :][-1:]]
        kept.reverse()
        self._upstream = [upstream[row] for row in kept]
        self._offsets = [self._offsets[row] for row in kept]
