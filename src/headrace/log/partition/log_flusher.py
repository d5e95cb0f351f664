"""Making a log durable: its records with `sync`, everything that recovery needs with `flush`."""

from collections.abc import Callable

from headrace.log.partition.log_state import LogState
from headrace.log.producer.producer_snapshot import encode_snapshot
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.model.offset import Offset, RecoveryPoint


class LogFlusher:
    """Makes a log durable, in two steps.

    `sync`: every record appended before it survives a crash. One fsync when only the active segment
    has grown, so this is what group commit calls.

    `flush`: in addition recovery need not look at them again. It syncs the indexes, writes leader
    epochs and a producer snapshot, and then moves the recovery point.

    Threads: any. Nothing is locked while the disk works. A truncation in the meantime is noticed by
    its count (`LogState.truncations`), and then the result is thrown away.
    """

    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def sync(self) -> Offset:
        """Make every record appended before this call durable; return up to which offset.

        One fsync when only the active segment has grown. Appends go on while the disk works.
        """
        log = self._log
        with log.sync_lock:
            log.check_open()
            with log.lock:
                truncations, end = log.truncations, log.tip.end_offset
                dirty = self._unsynced()
            with log.storage.io(f"sync {log.partition}"):
                for segment, *_ in dirty:
                    _unless_it_leaves(segment, segment.sync)
                log.segments.sync_names()
            with log.lock:
                if truncations == log.truncations:
                    for segment, size_bytes, refused in dirty:
                        segment.synced_bytes = max(segment.synced_bytes, size_bytes)
                        segment.synced_refusals = max(segment.synced_refusals, refused)
                    log.synced = max(log.synced, end)
                    log.synced_ms = log.storage.clock.monotonic_ms()
                return Offset(log.synced)

    def _unsynced(self) -> list[tuple[Segment, int, int]]:
        """Return the segments with unsynced bytes, oldest first, each with its size and with how
        many writes to it found no room.

        The segments below the synced offset have none.
        """
        segments = self._log.segments.all
        return [
            (segment, segment.size_bytes, segment.refused_writes)
            for segment in segments[floor(segments, self._log.synced) :]
            if segment.is_unsynced
        ]

    def sync_due(self) -> bool:
        """Return whether flush.messages or flush.ms asks for a `sync` now."""
        log = self._log
        unsynced = log.tip.end_offset - log.synced
        if unsynced <= 0:
            return False
        waited_ms = log.storage.clock.monotonic_ms() - log.synced_ms
        return unsynced >= log.config.flush_messages or waited_ms >= log.config.flush_ms

    def flush(self, *, force: bool = False) -> RecoveryPoint:
        """Sync, and let recovery start here: indexes and producer state become durable too.

        Args:
            force: also when nothing was appended since the last flush.
        """
        log = self._log
        with log.flush_lock:
            log.check_open()
            with log.lock:
                truncations, end = log.truncations, log.tip.end_offset
                flushed = end == log.recovery_point and not log.owed_snapshots
                if flushed and not force and not self._unsynced():
                    return RecoveryPoint(end)
                first = floor(log.segments.all, log.recovery_point)
                segments = log.segments.all[first:]
                owed = dict(log.owed_snapshots)
                owed[end] = encode_snapshot(log.producers.entries())
            self.sync()
            with log.storage.io(f"flush {log.partition}"):
                for segment in segments:
                    _unless_it_leaves(segment, segment.sync_indexes)
                log.epochs.flush()
                log.segments.names_changed = True
                log.segments.sync_names()
                with log.snapshot_lock:
                    if truncations == log.truncations:
                        for offset in sorted(owed):
                            log.snapshots.write(offset, owed[offset])
            with log.lock:
                if truncations == log.truncations:
                    log.recovery_point = max(log.recovery_point, end)
                    for offset in owed:
                        log.owed_snapshots.pop(offset, None)
                return RecoveryPoint(log.recovery_point)

    def prune_snapshots(self, durable_recovery_point: int) -> None:
        """Remove producer snapshots that no recovery can need any more."""
        log = self._log
        with (
            log.flush_lock,
            log.snapshot_lock,
            log.storage.io(f"remove snapshots of {log.partition}"),
        ):
            if not log.closed:
                bases = {segment.base_offset for segment in log.segments.all}
                log.snapshots.prune(durable_recovery_point, bases)


def _unless_it_leaves(segment: Segment, make_durable: Callable[[], None]) -> None:
    """Make something of a segment durable, unless the segment leaves the log before or meanwhile:
    its files have other names then, and nothing relies on them any more."""
    if segment.retired:
        return
    try:
        make_durable()
    except FileNotFoundError:
        if not segment.retired:
            raise
