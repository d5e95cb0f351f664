"""Dropping the end of a log, or all of it."""

import structlog

from headrace.log.partition.log_state import LogState, Tip
from headrace.log.producer.producer_replay import replay_producers, restore_unreplicated
from headrace.log.producer.producer_state import ProducerState
from headrace.log.segment.batch_scan import walk_heads
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.model.error import InvalidArgument

_log = structlog.get_logger(__name__)


class LogTruncator:
    """Drops batches from the end, durably, and brings everything that is known of them back to
    what was known before them: offsets, leader epochs, producers and their snapshots.

    Crash: recovery points and log starts are saved before a file changes, so that recovery believes
    nothing that is about to go.

    Threads: any, while nothing appends. Only here `lock` is held while the disk works.
    """

    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def truncate_to(self, offset: int) -> bool:
        """Drop the batches that reach to `offset` or further; False when there are none.

        With batches [0..9][10..19] truncating to 15 leaves [0..9] and a log end of 10: a batch goes
        whole. So does truncating [0..9][50..59] to 30: a log ends where its last batch does, for a
        start after a crash finds no other end. A follower asks its leader for what lies between
        once more, and there is none. Durable on return, so that what is appended next cannot mix
        with what was there.
        """
        if offset < 0:
            raise InvalidArgument(f"a log cannot be truncated to offset {offset}")
        log = self._log
        with log.structure_lock, log.storage.io(f"truncate {log.partition}"), log.lock:
            log.check_open()
            if offset >= log.tip.end_offset:
                return False
            segments = log.segments
            if offset < max(log.log_start, segments.all[0].base_offset):
                self._restart_at(offset, offset)
                return True
            kept = floor(segments.all, offset)
            end = _end_below(segments.all[kept], offset)
            if end < log.log_start:
                # A batch or a gap spans the log start, and nothing else is left.
                self._restart_at(offset, offset)
                return True
            self._announce(end)
            self._lower_offsets(end)
            self._cut(kept, offset, end)
            _log.info("log_truncated", partition=str(log.partition), end_offset=end)
            return True

    def _cut(self, kept: int, offset: int, end: int) -> None:
        """Drop all behind segment number `kept`, and what reaches to `offset` in that one."""
        log = self._log
        segments = log.segments
        with log.storage.io(f"truncate {log.partition}", midway=True):
            segments.drop_last(len(segments.all) - kept - 1, log.config.file_delete_delay_ms)
            active = segments.active
            active.truncate_to(offset)
            active.end_offset = end
            log.tip = Tip(end, active, active.size_bytes)
            log.epochs.truncate_from_end(end)
            log.epochs.flush()
            with log.snapshot_lock:
                log.snapshots.remove_above(end)
            segments.names_changed = True
            segments.sync_names()
            self._reload_producers(end)

    def truncate_fully_and_start_at(self, offset: int, segment_base: int | None = None) -> None:
        """Drop everything and go on at `offset`: a follower that fell behind the leader's start.

        Args:
            segment_base: where the new segment begins, at or below `offset`
                (`PartitionLog.restart_with`).
        """
        base = offset if segment_base is None else segment_base
        if not 0 <= base <= offset:
            raise InvalidArgument(f"a log cannot start at offset {offset} in a segment at {base}")
        log = self._log
        with log.structure_lock, log.storage.io(f"truncate {log.partition}"), log.lock:
            log.check_open()
            self._restart_at(offset, base)

    def _restart_at(self, offset: int, base: int) -> None:
        """Empty the log and let it start at `offset`, in a segment that begins at `base`.

        Crash: the new start is durable before a file goes. A crash leaves the old log, or an empty
        one at `offset`, because the loader drops all that lies below the start.
        """
        log = self._log
        self._announce(base)
        self._lower_offsets(base, log_start=offset)
        log.storage.log_start_moved()
        with log.storage.io(f"truncate {log.partition}", midway=True):
            log.high_watermark = offset
            segments = log.segments
            segments.drop_last(len(segments.all), log.config.file_delete_delay_ms)
            active = segments.add(base)
            active.end_offset = offset
            log.tip = Tip(offset, active, 0)
            log.epochs.clear()
            log.epochs.flush()
            with log.snapshot_lock:
                log.snapshots.remove_above(-1)
            log.producers.clear()
            segments.names_changed = True
            segments.sync_names()
            log.synced = base

    def _announce(self, end: int) -> None:
        """Tell the listeners, before anything has changed: the disk may be full for them.

        It is counted first. A round of compaction that ends right now looks at the count, and does
        not save its progress after the listeners have lowered it.
        """
        log = self._log
        log.truncations += 1
        log.storage.announce_truncation(log.partition, end)

    def _lower_offsets(self, end: int, log_start: int | None = None) -> None:
        """Count nothing from `end` on as durable any more, not even after a crash.

        When that cannot be written, because the disk is full, nothing has changed.
        """
        log = self._log
        before = (
            log.log_start,
            log.recovery_point,
            log.synced,
            log.high_watermark,
            log.owed_snapshots,
        )
        if log_start is not None:
            log.log_start = log_start
        log.recovery_point = min(log.recovery_point, end)
        log.synced = min(log.synced, end)
        log.high_watermark = min(log.high_watermark, end)
        log.owed_snapshots = {at: data for at, data in log.owed_snapshots.items() if at <= end}
        try:
            log.storage.save_offsets()
        except OSError:
            (
                log.log_start,
                log.recovery_point,
                log.synced,
                log.high_watermark,
                log.owed_snapshots,
            ) = before
            raise

    def _reload_producers(self, end: int) -> None:
        """Load the producers as of `end`: the last snapshot below it, and the heads since."""
        log = self._log
        first = log.segments.all[0].base_offset
        producers = ProducerState()
        with log.snapshot_lock:  # a checkpoint may just remove old ones
            start, entries = log.snapshots.latest(end) or (first, [])
            producers.load(entries)
            segments, high_watermark = log.segments.all, log.high_watermark
            restore_unreplicated(producers, log.snapshots, segments, start, high_watermark)
        replay_producers(producers, log.segments.all, start, end)
        producers.advance(log.high_watermark)
        log.producers.adopt(producers)


def _end_below(segment: Segment, offset: int) -> int:
    """Return where the batches of a segment end that do not reach to `offset`."""
    dropped = segment.find(offset)
    position = segment.size_bytes if dropped is None else dropped.position
    end = segment.base_offset
    if position:
        start = segment.offset_index.lookup(offset - 1).position
        for head in walk_heads(segment.file(), start, position):
            end = head.next_offset
    return end
