"""The part of a partition's log that talks to the disk about what must last."""

from headrace.log.partition.readable_log import ReadableLog
from headrace.log.producer.producer_snapshot import encode_snapshot
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.model.offset import (
    Offset,
    RecoveryPoint,
)


class DurableLog(ReadableLog):
    """Two promises, at two prices.

    `sync`: every record appended before it survives a crash. One fsync when only the active segment
    has grown, so this is what group commit calls.

    `flush`: in addition recovery need not look at them again. It syncs the indexes, writes leader
    epochs and a producer snapshot, and then moves the recovery point.

    Threads: any. Nothing is locked while the disk works. A truncation in the meantime is noticed by
    its count (`_cuts`), and then the result is thrown away.
    """

    # -- syncing: any thread -------------------------------------------------------------------

    def sync(self) -> Offset:
        """Make every record appended before this call durable; tells up to which offset.

        One fsync when only the active segment has grown. Appends go on while the disk works.
        """
        with self._syncing:
            self._check_open()
            with self._lock:
                cuts, end = self._cuts, self._tip.end_offset
                dirty = self._unsynced()
            with self._storage.io(f"sync {self.partition}"):
                for segment, _ in dirty:
                    if not segment.retired:
                        segment.sync()
                self._segments.sync_names()
            with self._lock:
                if cuts == self._cuts:
                    for segment, size_bytes in dirty:
                        segment.synced_bytes = max(segment.synced_bytes, size_bytes)
                    self._synced = max(self._synced, end)
                    self._synced_ms = self._storage.clock.monotonic_ms()
                return Offset(self._synced)

    def _unsynced(self) -> list[tuple[Segment, int]]:
        """Oldest first; those below the synced offset need no look."""
        segments = self._segments.all
        return [
            (segment, segment.size_bytes)
            for segment in segments[floor(segments, self._synced) :]
            if segment.synced_bytes < segment.size_bytes
        ]

    def sync_due(self) -> bool:
        """Whether flush.messages or flush.ms asks for a `sync` now."""
        unsynced = self._tip.end_offset - self._synced
        if unsynced <= 0:
            return False
        waited_ms = self._storage.clock.monotonic_ms() - self._synced_ms
        return unsynced >= self.config.flush_messages or waited_ms >= self.config.flush_ms

    def flush(self, *, force: bool = False) -> RecoveryPoint:
        """`sync`, and let recovery start here: indexes and producer state become durable too.

        Args:
            force: also when nothing was appended since the last flush.
        """
        with self._flushing:
            self._check_open()
            with self._lock:
                cuts, end = self._cuts, self._tip.end_offset
                if end == self._recovery_point and not self._owed_snapshots and not force:
                    return RecoveryPoint(end)
                first = floor(self._segments.all, self._recovery_point)
                segments = self._segments.all[first:]
                owed = dict(self._owed_snapshots)
                owed[end] = encode_snapshot(self._producers.entries())
            self.sync()
            with self._storage.io(f"flush {self.partition}"):
                for segment in segments:
                    if not segment.retired:
                        segment.sync_indexes()
                self.epochs.flush()
                self._segments.names_changed = True
                self._segments.sync_names()
                with self._shelving:
                    if cuts == self._cuts:
                        for offset in sorted(owed):
                            self._snapshots.write(offset, owed[offset])
            with self._lock:
                if cuts == self._cuts:
                    self._recovery_point = max(self._recovery_point, end)
                    for offset in owed:
                        self._owed_snapshots.pop(offset, None)
                return RecoveryPoint(self._recovery_point)

    def prune_snapshots(self, durable_recovery_point: int) -> None:
        """Remove producer snapshots that no recovery can need any more."""
        with (
            self._flushing,
            self._shelving,
            self._storage.io(f"remove snapshots of {self.partition}"),
        ):
            if not self._closed:
                bases = {segment.base_offset for segment in self._segments.all}
                self._snapshots.prune(durable_recovery_point, bases)
