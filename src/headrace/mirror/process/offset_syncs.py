"""The offset syncs of one flow: written for MirrorMaker 2's clients, used for checkpoints."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from headrace.mirror.format.offset_sync import OffsetSync
from headrace.mirror.offset_sync_table import OffsetSyncTable
from headrace.model.ids import TopicPartition

_MOST_PENDING: Final = 10_000
_MOST_AT_ONCE: Final = 16
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
        """Take all syncs that were written, by this process or another one, oldest first."""
        restored: dict[TopicPartition, OffsetSyncTable] = {}
        for sync in syncs:
            restored.setdefault(sync.partition, OffsetSyncTable()).add(sync)
        with self._lock:
            for sync in self._pending:
                restored.setdefault(sync.partition, OffsetSyncTable()).add(sync)
            self._tables |= restored

    def copied(self, partition: TopicPartition, pairs: Sequence[tuple[int, int]]) -> None:
        """Note committed records: offsets at the source and at the target, ascending."""
        if not pairs:
            return
        now = time.monotonic()
        # A large transaction gets few syncs: the table keeps only some of them anyway.
        span = max(self._lag_max, (pairs[-1][1] - pairs[0][1]) // _MOST_AT_ONCE)
        with self._lock:
            known = self._last.get(partition)
            if known is not None and pairs[0][1] < known[0]:
                # The target's topic was created again.
                known = None
            for source, target in pairs:
                if known is None or target - known[0] >= span:
                    known = self._add(OffsetSync(partition, source, target), now)
            source, target = pairs[-1]
            if known is not None and target > known[0] and now - known[1] >= _IDLE_SECONDS:
                self._add(OffsetSync(partition, source, target), now)

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

    def _add(self, sync: OffsetSync, now: float) -> tuple[int, float]:
        self._table(sync.partition).add(sync)
        self._pending.append(sync)
        self._last[sync.partition] = added = (sync.offset, now)
        return added

    def _table(self, partition: TopicPartition) -> OffsetSyncTable:
        table = self._tables.get(partition)
        if table is None:
            table = self._tables[partition] = OffsetSyncTable()
        return table
