"""Closing the active segment of a log and starting the next one."""

from headrace.log.partition.log_state import LogState, Tip
from headrace.log.producer.producer_snapshot import encode_snapshot
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor

_INT_MAX = 2**31 - 1
_LEAST_DEFERRED_BYTES = 1024 * 1024


class SegmentRoller:
    """Starts a new active segment at the log end.

    Invariant: unsynced data lies in the last two segments only, so that a roll needs the segment
    before the closing one synced; recovery relies on it (`loader`, rule 2). And the closing one, if
    bytes were cut off from it that a crash may bring back: recovery looks at no earlier segment.

    An append does not wait for that: the active segment goes on, up to twice segment.bytes, until
    a thread has synced the one before (`may_roll`). Only past that, or where no index can hold what
    comes, does the append wait. Segments below `_LEAST_DEFERRED_BYTES` are rolled at once.

    Threads: the appender, and retention when everything in the log is too old.
    """

    __slots__ = ("_asked_for", "_log")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._asked_for: tuple[Segment, int] | None = None

    def roll(self) -> Segment:
        """Close the active segment and start a new one at the log end; no-op when it is empty."""
        log = self._log
        with log.structure_lock, log.lock, log.storage.io(f"roll {log.partition}"):
            if log.tip.segment.size_bytes == 0:
                return log.tip.segment
            return self.start_segment(log.tip.end_offset, log.tip.end_offset)

    def may_roll(self, size_bytes: int, last_offset: int) -> bool:
        """Return whether an append of this size, which is due for a new segment, should start one:
        it can without waiting for the disk, or must."""
        log, config = self._log, self._log.config
        closing = log.tip.segment
        if not self.must_wait or config.segment_bytes < _LEAST_DEFERRED_BYTES:
            return True
        most_bytes = min(2 * config.segment_bytes, _INT_MAX)
        if (
            closing.size_bytes + size_bytes > most_bytes
            or not closing.can_hold(last_offset)
            or closing.size_bytes >= closing.indexable_bytes(config)
        ):
            return True
        wanted = (closing, closing.refused_writes)
        if self._asked_for != wanted:
            # Again after each refused write: the flush that was asked for may have begun before.
            self._asked_for = wanted
            log.on_roll(log.partition)
        return False

    @property
    def must_wait(self) -> bool:
        """Whether the disk has to work before a segment can be started."""
        segments = self._log.segments
        if segments.active.owes_cut:
            return True
        if len(segments.all) < 2:
            return False
        return segments.all[-2].is_unsynced or segments.names_changed

    def start_segment(self, base_offset: int, last_offset: int) -> Segment:
        """Start a segment for a write from `base_offset` to `last_offset`. The caller holds `lock`.

        The new segment starts at the log end; its files and the old one's tail are not synced. Only
        when a follower's offsets jump too far for an index does it start at the new batch.
        """
        log = self._log
        end = log.tip.end_offset
        closing = log.tip.segment
        closing.close_indexes()
        self._sync_before(closing)
        if last_offset - end > _INT_MAX:
            return self._start_after_gap(base_offset)
        log.owed_snapshots[end] = encode_snapshot(log.producers.entries())
        segment = log.segments.add(end)
        log.tip = Tip(end, segment, 0)
        log.on_roll(log.partition)
        return segment

    def _start_after_gap(self, base: int) -> Segment:
        """Start a segment at `base`, far behind the log end, and let the log end there.

        Recovery counts a gap above the recovery point as lost records. So all that lies before it
        is made durable first, and the recovery point is moved behind it. The disk works while the
        log's lock is held: a leader's offsets make such a jump hardly ever.
        """
        log = self._log
        for segment in log.segments.all[floor(log.segments.all, log.recovery_point) :]:
            _sync(segment)
            segment.sync_indexes()
        log.epochs.flush()
        owed = {**log.owed_snapshots, base: encode_snapshot(log.producers.entries())}
        with log.snapshot_lock:
            for offset in sorted(owed):
                log.snapshots.write(offset, owed[offset])
        active = log.segments.add(base)
        log.segments.sync_names()
        log.owed_snapshots = {}
        log.tip = Tip(base, active, 0)
        log.synced = log.recovery_point = base
        log.storage.save_offsets()
        log.on_roll(log.partition)
        return active

    def _sync_before(self, closing: Segment) -> None:
        """Wait for the disk if it is more than a segment behind."""
        segments = self._log.segments.all
        if len(segments) > 1 and segments[-1] is closing:
            previous = segments[-2]
            if previous.is_unsynced:
                _sync(previous)
            self._log.segments.sync_names()
        if closing.owes_cut:
            _sync(closing)


def _sync(segment: Segment) -> None:
    """Make a segment durable, with what was cut off from it. Nothing is appended meanwhile."""
    segment.sync()
    segment.synced_bytes, segment.synced_refusals = segment.size_bytes, segment.refused_writes
