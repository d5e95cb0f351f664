"""The log of one partition: batches in segments, and in memory only what it takes to find them."""

from collections.abc import Sequence

import structlog

from headrace.log.partition.log_state import Tip
from headrace.log.partition.retention import deletable_segments
from headrace.log.partition.writable_log import WritableLog
from headrace.log.producer.producer_replay import replay_producers
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_list import floor
from headrace.model.error import (
    InvalidArgument,
    OffsetOutOfRange,
)
from headrace.model.offset import (
    LogStartOffset,
)

_log = structlog.get_logger(__name__)


class PartitionLog(WritableLog):
    """Append, read, truncate, trim and sync one partition. `LogDirectory` makes them.

    It is made of layers, each in its file, and each with its invariants: `LogState` (offsets),
    `ReadableLog`, `DurableLog` (sync and flush), `WritableLog` (append and roll), and here what
    takes away: truncation, retention, DeleteRecords, the exchange of compacted segments.

    Crash: every record below `synced_offset` survives; recovery starts at `recovery_point`, below
    which indexes, leader epochs and a producer snapshot are durable as well. See `loader`.

    Threads: one appends and truncates. Any reads, without a lock. Flush, retention and compaction
    run in others: they hold `_lock` only to take or to change references, never while the disk
    works. Only truncation does, and it is the appender's own. Locks are taken in the order
    `_structure`, `_flushing`, `_syncing`, `_lock`.
    """

    # -- truncating: the one appender thread ---------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drop the batches that reach to `offset` or further; False when there are none.

        With batches [0..9][10..19] truncating to 15 leaves [0..9] and a log end of 10: a batch goes
        whole. Durable on return, so that what is appended next cannot mix with what was there.
        """
        if offset < 0:
            raise InvalidArgument(f"a log cannot be truncated to offset {offset}")
        with self._structure, self._storage.io(f"truncate {self.partition}"), self._lock:
            if offset >= self._tip.end_offset:
                return False
            if offset < max(self._log_start, self._segments.all[0].base_offset):
                self._restart_at(offset)
                return True
            kept = floor(self._segments.all, offset)
            found = self._segments.all[kept].find(offset)
            end = offset if found is None else min(offset, found.base_offset)
            self._forget_from(end)
            self._segments.drop_last(
                len(self._segments.all) - kept - 1, self.config.file_delete_delay_ms
            )
            active = self._segments.active
            active.truncate_to(offset)
            active.end_offset = end
            self._tip = Tip(end, active, active.size_bytes)
            self.epochs.truncate_from_end(end)
            self.epochs.flush()
            with self._shelving:
                self._snapshots.remove_above(end)
            self._segments.names_changed = True
            self._segments.sync_names()
            self._reload_producers(end)
            self.assert_order()
            _log.info("log_truncated", partition=str(self.partition), end_offset=end)
            return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`: a follower that fell behind the leader's start."""
        if offset < 0:
            raise InvalidArgument(f"a log cannot start at offset {offset}")
        with self._structure, self._storage.io(f"truncate {self.partition}"), self._lock:
            self._restart_at(offset)

    def _restart_at(self, offset: int) -> None:
        """The new start is durable before anything goes: a crash leaves the old log or an empty one
        at `offset`, because the loader drops all that lies below the start."""
        self._log_start = offset
        self._forget_from(offset)
        self._high_watermark = offset
        segments = self._segments
        count = len(segments.all)
        segments.drop_last(count, self.config.file_delete_delay_ms)
        active = segments.add(offset)
        self._tip = Tip(offset, active, 0)
        self.epochs.clear()
        self.epochs.flush()
        with self._shelving:
            self._snapshots.remove_above(-1)
        self._producers.clear()
        segments.names_changed = True
        segments.sync_names()
        self._synced = offset
        self.assert_order()

    def _forget_from(self, end: int) -> None:
        """Nothing from `end` on may be taken for durable any more, not even after a crash."""
        self._cuts += 1
        self._recovery_point = min(self._recovery_point, end)
        self._synced = min(self._synced, end)
        self._high_watermark = min(self._high_watermark, end)
        self._owed_snapshots = {at: data for at, data in self._owed_snapshots.items() if at <= end}
        self._storage.save_offsets()

    def _reload_producers(self, end: int) -> None:
        """The state as it was at `end`: from the last snapshot below, and the heads since."""
        start, entries = self._snapshots.latest(end) or (self._segments.all[0].base_offset, [])
        self._producers.load(entries)
        replay_producers(self._producers, self._segments.all, start, end)
        self._producers.advance(self._high_watermark)

    # -- trimming: any thread ------------------------------------------------------------------

    def delete_records(self, before: int) -> LogStartOffset:
        """DeleteRecords: readers begin at `before` from now on, also after a crash.

        Args:
            before: exclusive; -1 means the high watermark.

        Raises:
            OffsetOutOfRange: above the high watermark.
        """
        with self._structure:
            if before == -1:
                before = self._high_watermark
            if before < 0 or before > self._high_watermark:
                raise OffsetOutOfRange(
                    f"records of {self.partition} can be deleted up to the high watermark "
                    f"{self._high_watermark}, not up to {before}"
                )
            if before > self._log_start:
                self._raise_log_start(before)
            return self.log_start_offset

    def _raise_log_start(self, offset: int) -> None:
        if self._recovery_point < offset or any(owed <= offset for owed in self._owed_snapshots):
            # What producers did below is known from the log alone until it is in a snapshot.
            self.flush()
        if offset <= self._log_start:
            return
        with self._storage.io(f"move the start of {self.partition}"):
            with self._lock:
                self._log_start = offset
                self._producers.advance(offset)
            self._storage.save_offsets()
            with self._lock:
                self.epochs.truncate_from_start(offset)

    def apply_retention(self) -> int:
        """Drop what retention.ms, retention.bytes and the log start no longer keep; how many
        segments that was. Their files go after file.delete.delay.ms (`remove_deleted`)."""
        with self._structure, self._storage.io(f"apply retention to {self.partition}"):
            self._check_open()
            deletable = self._retrying(
                lambda: deletable_segments(
                    self._segments.all,
                    self.config,
                    log_start=self._log_start,
                    high_watermark=self._high_watermark,
                    now_ms=self._storage.clock.wall_ms(),
                )
            )
            count = deletable.count
            if not count:
                return 0
            if count == len(self._segments.all):
                self.roll()
            start = max(self._segments.all[count].base_offset, self._log_start)
            self._raise_log_start(start)
            self._segments.drop_first(count, self.config.file_delete_delay_ms)
            self._segments.sync_names()
            _log.info(
                "segments_deleted",
                partition=str(self.partition),
                count=count,
                reason=deletable.reason,
                log_start=start,
            )
            return count

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put compacted segments in the place of their sources: at once for readers, and whole or
        not at all in a crash.

        Args:
            old: neighbours in the log, not the active one.
            new: written aside with the stage `.cleaned`, their bytes and indexes synced. None, when
                nothing of the old ones is left.

        Raises:
            InvalidArgument: `old` is not in the log any more (retention was faster); drop `new`.
        """
        with self._structure, self._storage.io(f"replace segments of {self.partition}"):
            self._check_open()
            if old and self._recovery_point < old[-1].end_offset:
                self.flush()
            # Recovery takes a gap between segments above this point for a loss.
            self._storage.save_offsets()
            for segment in new:
                segment.sync()
                segment.sync_indexes()
                segment.synced_bytes = segment.size_bytes
                # Every file of a new segment exists, so that a missing `.swap` means: in its place.
                self._storage.files.get(segment.transaction_index.path, create=True)
            self._segments.replace(old, new, self.config.file_delete_delay_ms)

    def remove_deleted(self) -> int:
        """Remove the files of segments that left the log file.delete.delay.ms ago."""
        with self._structure, self._storage.io(f"remove segments of {self.partition}"):
            self._check_open()
            return self._segments.remove_due()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush everything and let go of memory and files; opening again needs no scan."""
        if self._closed:
            return
        with self._structure, self._storage.io(f"close {self.partition}"):
            with self._lock:
                grown = self._tip.segment.close_indexes()
            self.flush(force=grown)
            with self._flushing:
                self._closed = True
                self.epochs.flush()
                for segment in self._segments.all:
                    segment.close()

    def abandon(self) -> None:
        """Let go without writing anything: the directory is offline, or is being removed."""
        with self._structure, self._flushing, self._syncing:
            self._closed = True
            for segment in self._segments.all:
                segment.discard()
