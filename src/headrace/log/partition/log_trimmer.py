"""Dropping the start of a log, and exchanging its segments for compacted ones."""

from collections.abc import Sequence

import structlog

from headrace.log.partition.log_flusher import LogFlusher
from headrace.log.partition.log_reader import LogReader
from headrace.log.partition.log_state import LogState
from headrace.log.partition.retention import DeletableSegments, deletable_segments
from headrace.log.partition.segment_roller import SegmentRoller
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.model.error import InvalidArgument, OffsetOutOfRange
from headrace.model.offset import LogStartOffset

_log = structlog.get_logger(__name__)


class LogTrimmer:
    """Moves the log start and drops or replaces segments: DeleteRecords, retention, compaction.

    Invariant: the log start never passes the high watermark, and no segment goes that reaches past
    the log start.

    Crash: a new log start is durable before the segments below it go.

    Threads: any; `structure_lock` lets one of them work at a time. `lock` is held only to change
    references, never while the disk works.
    """

    __slots__ = ("_flusher", "_log", "_reader", "_roller")

    def __init__(
        self, log: LogState, reader: LogReader, flusher: LogFlusher, roller: SegmentRoller
    ) -> None:
        self._log = log
        self._reader = reader
        self._flusher = flusher
        self._roller = roller

    def delete_records(self, before: int) -> LogStartOffset:
        """Let readers begin at `before` from now on, also after a crash (DeleteRecords).

        Args:
            before: exclusive; -1 means the high watermark.

        Raises:
            OffsetOutOfRange: above the high watermark.
        """
        log = self._log
        with log.structure_lock:
            log.check_open()
            if before == -1:
                before = log.high_watermark
            if before < 0 or before > log.high_watermark:
                raise OffsetOutOfRange(
                    f"records of {log.partition} can be deleted up to the high watermark "
                    f"{log.high_watermark}, not up to {before}"
                )
            if before > log.log_start:
                self._raise_log_start(before)
            return LogStartOffset(log.log_start)

    def _raise_log_start(self, offset: int) -> None:
        log = self._log
        if log.recovery_point < offset or any(owed <= offset for owed in log.owed_snapshots):
            # What producers did below is known from the log alone until it is in a snapshot.
            self._flusher.flush()
        with log.storage.io(f"move the start of {log.partition}"):
            with log.lock:
                # It may have been lowered since the caller looked.
                offset = min(offset, log.high_watermark)
                if offset <= log.log_start:
                    return
                before, log.log_start = log.log_start, offset
                log.producers.advance(offset)
            try:
                log.storage.save_offsets()
            except OSError:
                # A start that a crash would undo is none: the caller comes again.
                log.log_start = before
                raise
            log.storage.log_start_moved()
            with log.lock:
                log.epochs.truncate_from_start(offset)

    def apply_retention(self) -> int:
        """Drop the segments that retention.ms, retention.bytes and the log start no longer keep.

        Their files are removed file.delete.delay.ms later (`remove_deleted`).

        Returns:
            How many segments were dropped.
        """
        log = self._log
        with log.structure_lock, log.storage.io(f"apply retention to {log.partition}"):
            log.check_open()
            segments = log.segments.all
            deletable = self._reader.retrying(lambda: self._deletable(segments))
            count = deletable.count
            if count == len(segments):
                deletable, count = self._close_active()
            if not count:
                return 0
            self._raise_log_start(log.segments.all[count].base_offset)
            count = min(count, floor(log.segments.all, log.log_start))
            if not count:
                return 0
            log.segments.drop_first(count, log.config.file_delete_delay_ms)
            log.segments.sync_names()
            _log.info(
                "segments_deleted",
                partition=str(log.partition),
                count=count,
                reason=deletable.reason,
                log_start=log.log_start,
            )
            return count

    def _deletable(self, segments: Sequence[Segment]) -> DeletableSegments:
        log = self._log
        return deletable_segments(
            segments,
            log.config,
            log_start=log.log_start,
            high_watermark=log.high_watermark,
            now_ms=log.storage.clock.wall_ms(),
        )

    def _close_active(self) -> tuple[DeletableSegments, int]:
        """Decide again while nothing can be appended, and close the active segment if it may still
        go; return the decision, and how many segments go.

        Appends go on while retention decides: a record that came meanwhile is in the segment that
        was active. What was not closed when it was judged is therefore judged here once more.

        The disk works before the lock is taken. If appends have rolled since, so that closing the
        active segment would wait for it again, that segment stays until the next time.
        """
        log = self._log
        self._flusher.sync()
        with log.lock:
            segments = log.segments.all
            deletable = self._deletable(segments)
            count = deletable.count
            if count == len(segments):
                if self._roller.must_wait:
                    count -= 1
                else:
                    self._roller.roll()
            return deletable, count

    def replace_segments(
        self, old: Sequence[Segment], new: Sequence[Segment], truncations: int | None = None
    ) -> None:
        """Put compacted segments in the place of their sources: at once for readers, and whole or
        not at all in a crash.

        Args:
            old: neighbours in the log, not the active one.
            new: written aside with the stage `.cleaned`, their bytes and indexes synced. None, when
                nothing of the old ones is left.
            truncations: how many there were when `old` was read. A record that made an older one
                superfluous may be gone with a later one.

        Raises:
            InvalidArgument: `old` is not in the log any more (retention was faster), or the log was
                truncated since; drop `new`.
        """
        log = self._log
        with log.structure_lock, log.storage.io(f"replace segments of {log.partition}"):
            log.check_open()
            if truncations is not None and truncations != log.truncations:
                raise InvalidArgument(f"{log.partition} was truncated while it was compacted")
            if old and log.recovery_point < old[-1].end_offset:
                self._flusher.flush()
            # Recovery counts a gap between segments above this point as a loss.
            log.storage.save_offsets()
            for segment in new:
                segment.sync()
                segment.sync_indexes()
                segment.synced_bytes = segment.size_bytes
                # Every file of a new segment exists, so that a missing `.swap` means: in its place.
                log.storage.files.get(segment.transaction_index.path, create=True)
            with log.storage.io(f"replace segments of {log.partition}", midway=True):
                log.segments.replace(old, new, log.config.file_delete_delay_ms)

    def remove_deleted(self) -> int:
        """Remove the files of segments that left the log file.delete.delay.ms ago; how many."""
        log = self._log
        with log.structure_lock, log.storage.io(f"remove segments of {log.partition}"):
            log.check_open()
            return log.segments.remove_due()
