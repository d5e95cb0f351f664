"""The offset syncs of one flow: written for MirrorMaker 2's clients, used for checkpoints."""

import time
from collections import deque
from collections.abc import Iterable
from threading import Lock
from typing import Final

from headrace.mirror.format.offset_sync import OffsetSync
from headrace.mirror.offset_sync_table import OffsetSyncTable
from headrace.model.ids import TopicPartition

_MOST_PENDING: Final = 10_000
_IDLE_SECONDS: Final = 1.0


class OffsetSyncs:
    """Takes pairs of offsets from the copying thread, for a thread that writes them.

    A partition gets a sync for its first record, then after `lag_max` records, or after a second if
    any record was copied. When the syncs cannot be written for long, the oldest are forgotten: the
    translation of offsets gets coarser, and stays right.

    Threads: any.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._lock = Lock()
        self._tables: dict[TopicPartition, OffsetSyncTable] = {}
        self._pending: deque[OffsetSync] = deque(maxlen=_MOST_PENDING)
        self._last: dict[TopicPartition, tuple[int, float]] = {}

    def restore(self, syncs: Iterable[OffsetSync]) -> None:
        """Take syncs that an earlier process wrote, oldest first, before those of this one."""
        restored: dict[TopicPartition, OffsetSyncTable] = {}
        for sync in syncs:
            restored.setdefault(sync.partition, OffsetSyncTable()).add(sync)
        with self._lock:
            for partition, table in restored.items():
                present = self._tables.get(partition)
                for pair in present.syncs if present is not None else ():
                    table.add(OffsetSync(partition, *pair))
                self._tables[partition] = table

    def copied(
        self, partition: TopicPartition, first: tuple[int, int] | None, last: tuple[int, int]
    ) -> None:
        """Note committed records.

        Args:
            first: source and target offset of the first record of this process, or None if they
                are not known.
            last: those of the last one that was committed.
        """
        now = time.monotonic()
        with self._lock:
            known = self._last.get(partition)
            if known is None and first is not None and first < last:
                self._add(OffsetSync(partition, *first), now)
            if (
                known is None
                or last[1] - known[0] >= self._lag_max
                or now - known[1] >= _IDLE_SECONDS
            ):
                self._add(OffsetSync(partition, *last), now)

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Return where a reader at an offset of the source goes on at the target, if known."""
        with self._lock:
            table = self._tables.get(partition)
            return None if table is None else table.translate(offset)

    def drain(self) -> list[OffsetSync]:
        """Return the syncs to write, oldest first."""
        with self._lock:
            pending = list(self._pending)
            self._pending.clear()
        return pending

    def put_back(self, syncs: list[OffsetSync]) -> None:
        """Keep syncs that could not be written for the next try."""
        with self._lock:
            room = _MOST_PENDING - len(self._pending)
            self._pending.extendleft(reversed(syncs[-room:] if room else []))

    def _add(self, sync: OffsetSync, now: float) -> None:
        self._table(sync.partition).add(sync)
        self._pending.append(sync)
        self._last[sync.partition] = (sync.offset, now)

    def _table(self, partition: TopicPartition) -> OffsetSyncTable:
        table = self._tables.get(partition)
        if table is None:
            table = self._tables[partition] = OffsetSyncTable()
        return table
