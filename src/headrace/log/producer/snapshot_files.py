"""The producer snapshots of one partition, by offset."""

from bisect import bisect_right, insort
from collections.abc import Container, Iterable
from pathlib import Path

import structlog

from headrace.log.producer.producer_entry import ProducerEntry
from headrace.log.producer.producer_snapshot import read_snapshot, snapshot_path
from headrace.log.storage import Storage
from headrace.model.error import CorruptSnapshot

_log = structlog.get_logger(__name__)

# The newest that a recovery would start from, and the one before, in case that does not check.
_KEPT = 2


class SnapshotFiles:
    """Snapshots lie at the offsets where segments were rolled, where the log was flushed and where
    it was closed.

    Invariant: `offsets` names every snapshot file of the directory. None of them lies above the log
    end: truncation removes those first, because the same offsets get other records afterwards.

    Crash: a snapshot is written atomically. One too many does no harm, since recovery takes the
    newest at or below the recovery point; with none at all it replays the whole log.

    Threads: calls are serialised by the log's own locks.
    """

    def __init__(self, storage: Storage, directory: Path, offsets: Iterable[int]) -> None:
        self._storage = storage
        self._directory = directory
        self.offsets = sorted(offsets)

    def write(self, offset: int, content: bytes) -> None:
        """Write a snapshot of everything below `offset`; durable on return."""
        self._storage.filesystem.write_atomically(snapshot_path(self._directory, offset), content)
        if offset not in self.offsets:
            insort(self.offsets, offset)

    def latest(self, at_most: int) -> tuple[int, list[ProducerEntry]] | None:
        """Return the newest sound snapshot at or below `at_most`. Damaged ones are removed."""
        while row := bisect_right(self.offsets, at_most):
            offset = self.offsets[row - 1]
            path = snapshot_path(self._directory, offset)
            try:
                return offset, read_snapshot(self._storage.filesystem, path)
            except CorruptSnapshot as error:
                _log.warning("producer_snapshot_discarded", reason=str(error))
                self._remove(offset)
        return None

    def remove_above(self, offset: int) -> None:
        """Remove the snapshots above `offset`, because the log was truncated to it."""
        for stale in self.offsets[bisect_right(self.offsets, offset) :]:
            self._remove(stale)

    def prune(self, recovery_point: int, bases: Container[int]) -> None:
        """Keep the newest two at or below a durable recovery point, all above it, and those at the
        base of a segment: a truncation into that segment starts from there."""
        for old in self.offsets[: max(0, bisect_right(self.offsets, recovery_point) - _KEPT)]:
            if old not in bases:
                self._remove(old)

    def _remove(self, offset: int) -> None:
        path = snapshot_path(self._directory, offset)
        if self._storage.filesystem.exists(path):
            self._storage.filesystem.remove(path)
        self.offsets.remove(offset)
