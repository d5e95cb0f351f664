"""Chooses which log of a log directory is compacted next, and remembers how far each one is."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING

import structlog

from headrace.log.compaction.cleanable_range import (
    CleanableRange,
    cleanable_range,
    first_dirty_offset,
)
from headrace.log.compaction.compaction_room import room_bytes
from headrace.log.offset_checkpoint import CLEANER_NAME, OffsetCheckpoint
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.storage import Storage
from headrace.model.error import (
    CompactionStopped,
    CorruptLog,
    DiskFull,
    HeadraceError,
    LogClosed,
    StorageError,
    UncleanableLog,
)
from headrace.model.ids import TopicPartition
from headrace.model.offset import Offset

if TYPE_CHECKING:
    # Imports numba, which costs most of a second: the creator of the compactor pays for it.
    from headrace.log.compaction.compactor import CompactionStats, Compactor

_log = structlog.get_logger(__name__)


class CompactionScheduler:
    """Compacts the logs of one log directory, the dirtiest first.

    The progress of each log is in `cleaner-offset-checkpoint`: the first offset that is not
    compacted. It is written after a round. A crash before that costs the round once more, nothing
    else.

    Threads: several may call `run` and `run_once`, each with its own compactor, and work on
    different logs. Any may call the rest.
    """

    def __init__(
        self, storage: Storage, directory: Path, logs: Callable[[], Iterable[PartitionLog]]
    ) -> None:
        """`logs` gives the logs of the directory, compacted topics or not."""
        self._storage = storage
        self._directory = directory
        self._logs = logs
        self._checkpoint = OffsetCheckpoint(storage.filesystem, directory / CLEANER_NAME)
        self._first_dirty: dict[TopicPartition, Offset] | None = None
        # Guards everything below, and the checkpoint file.
        self._changed = Condition()
        self._running: set[TopicPartition] = set()
        self._paused: Counter[TopicPartition] = Counter()
        storage.on_truncation(self._lower_progress)
        # Compaction cannot open something in these; another round would fail the same way.
        self.uncleanable: dict[TopicPartition, str] = {}
        # What the last look found worth compacting, for metrics.
        self.due_logs = 0
        self.due_bytes = 0

    def run(self, compactor: "Compactor", stopping: Callable[[], bool]) -> None:
        """Compact one log after the other until none needs it, or `stopping` says so.

        Each log that is due has one round, the dirtiest first, and then all are looked at again. A
        log whose round fails is left out until the next run, with a line in the log: it stays the
        dirtiest, and the others would never have their turn. A disk without room for any ends the
        run.

        Raises:
            StorageError: the directory went offline, or the checkpoint of the progress is damaged.
        """
        left_out: set[TopicPartition] = set()
        compacted = True
        while compacted and not stopping():
            compacted = False
            for log in self._due(left_out):
                if stopping():
                    return
                try:
                    compacted |= self._compact(compactor, log) is not None
                except HeadraceError as error:
                    self._storage.check_online()
                    if stopping():
                        return
                    left_out.add(log.partition)
                    _report(log, error)
                    if isinstance(error, DiskFull) and self._has_no_room():
                        return

    def run_once(self, compactor: "Compactor") -> "CompactionStats | None":
        """Compact the log that needs it most; None when none does.

        A log that cannot be compacted is set aside, with a line in the log, until the next start.

        Raises:
            StorageError: the directory went offline.
            CompactionStopped: it was paused, the compactor stopped, or the log changed meanwhile.
        """
        for log in self._due(set()):
            stats = self._compact(compactor, log)
            if stats is not None:
                return stats
        return None

    def _compact(self, compactor: "Compactor", log: PartitionLog) -> "CompactionStats | None":
        """Compact a log that was due; None when it is not any more, or cannot be compacted.

        It may have changed, moved to another directory or been deleted since.
        """
        with self._changed:
            if log.partition in self._running or self._paused[log.partition]:
                return None
            self._running.add(log.partition)
        try:
            truncations = log.truncations
            if log.closed or log.storage is not self._storage:
                return None
            cleanable = self.cleanable(log)
            if not cleanable.worthwhile(log.config):
                return None
            return self._clean(compactor, log, cleanable, truncations)
        finally:
            with self._changed:
                self._running.discard(log.partition)
                self._changed.notify_all()

    def _clean(
        self, compactor: "Compactor", log: PartitionLog, cleanable: CleanableRange, truncations: int
    ) -> "CompactionStats | None":

        def stopping() -> bool:
            # A round that maps keys of records which are gone would drop older ones for them.
            return self._paused[log.partition] > 0 or log.truncations != truncations

        try:
            stats = compactor.clean(log, cleanable, stopping=stopping)
            self._save(log, stats.end_offset, truncations)
        except UncleanableLog as error:
            self.uncleanable[log.partition] = str(error)
            _log.error("log_uncleanable", partition=str(log.partition), reason=str(error))
            return None
        _log.info(
            "log_compacted",
            partition=str(log.partition),
            first_dirty=stats.first_dirty,
            end_offset=stats.end_offset,
            records_read=stats.records_read,
            records_kept=stats.records_kept,
            bytes_read=stats.bytes_read,
            bytes_written=stats.bytes_written,
            elapsed_ms=stats.elapsed_ms,
        )
        return stats

    def cleanable(self, log: PartitionLog) -> CleanableRange:
        """Return what could be compacted in `log` now, worthwhile or not."""
        with self._changed:
            checkpoint = self._progress().get(log.partition)
        return log.retrying(  # it may read timestamps
            lambda: cleanable_range(
                log.segments,
                log.config,
                first_dirty=first_dirty_offset(
                    checkpoint, log_start=log.log_start_offset, log_end=log.log_end_offset
                ),
                last_stable=log.last_stable_offset,
                now_ms=self._storage.clock.wall_ms(),
            )
        )

    @contextmanager
    def paused(self, *partitions: TopicPartition) -> Iterator[None]:
        """Stop running compactions of `partitions`, wait for their end, and let none start inside.

        A thread that deletes, truncates or moves a log does so in here.
        """
        with self._changed:
            self._paused.update(partitions)
            self._changed.wait_for(lambda: self._running.isdisjoint(partitions))
        try:
            yield
        finally:
            with self._changed:
                self._paused.subtract(partitions)
                self._paused += Counter()  # drops those that are back at zero

    def truncated(self, partition: TopicPartition, offset: int) -> None:
        """Lower the progress of a truncated log: what follows `offset` has never been compacted.

        The thread that truncates calls this before the next append, otherwise new records below the
        old progress would count as compacted. Durable on return.
        """
        with self._changed:
            progress = self._progress()
            if progress.get(partition, Offset(0)) > offset:
                self._write(progress | {partition: Offset(offset)})

    def _lower_progress(self, partition: TopicPartition, end: int) -> None:
        """Hear of a truncation; a damaged checkpoint is compaction's trouble, not the log's."""
        try:
            self.truncated(partition, end)
        except CorruptLog as error:
            _log.error("cleaner_checkpoint_damaged", reason=str(error))

    def forget(self, *partitions: TopicPartition) -> None:
        """Drop the progress of deleted logs, durably; others of the same names may follow."""
        with self._changed:
            before = self._progress()
            progress = dict(before)
            for partition in partitions:
                self.uncleanable.pop(partition, None)
                progress.pop(partition, None)
            if len(progress) < len(before):
                self._write(progress)

    def take_over(self, partition: TopicPartition, other: "CompactionScheduler") -> None:
        """Go on with a log where the scheduler of another directory stopped; both are paused."""
        with other._changed:
            reached = other._progress().get(partition)
        if reached is not None:
            with self._changed:
                self._write(self._progress() | {partition: reached})
        other.forget(partition)

    def _due(self, left_out: set[TopicPartition]) -> list[PartitionLog]:
        """Return the logs to compact, the dirtiest first; leave out those that cannot be judged."""
        with self._changed:
            self._progress()  # its damage ends the run: it is not of one log
        found = []
        for log in self._logs():
            if not log.config.compacted or log.partition in self.uncleanable:
                continue
            try:
                cleanable = self.cleanable(log)
            except HeadraceError as error:
                self._storage.check_online()
                left_out.add(log.partition)
                _report(log, error)
                continue
            if cleanable.worthwhile(log.config):
                found.append((log, cleanable))
        self.due_logs = len(found)
        self.due_bytes = sum(cleanable.dirty_bytes for _, cleanable in found)
        found.sort(key=lambda each: each[1].dirty_ratio, reverse=True)
        return [log for log, _ in found if log.partition not in left_out]

    def _has_no_room(self) -> bool:
        """Return whether the disk has less left than what compaction leaves to appends."""
        return room_bytes(self._storage, self._directory) <= 0

    def _save(self, log: PartitionLog, end_offset: Offset, truncations: int) -> None:
        present = {log.partition for log in self._logs()}
        with self._changed:
            if log.truncations != truncations:
                # It was cut right after the round, and may be shorter than what was compacted.
                raise CompactionStopped(f"{log.partition} was truncated")
            progress = {key: at for key, at in self._progress().items() if key in present}
            self._write(progress | {log.partition: end_offset})

    def _progress(self) -> dict[TopicPartition, Offset]:
        if self._first_dirty is None:
            try:
                self._first_dirty = self._checkpoint.read()
            except OSError as error:
                raise self._storage.fail(
                    StorageError(f"cannot read {self._checkpoint.path}: {error.strerror or error}")
                ) from error
        return self._first_dirty

    def _write(self, progress: dict[TopicPartition, Offset]) -> None:
        with self._storage.io(f"write {self._checkpoint.path}"):
            self._checkpoint.write(progress)
        self._first_dirty = progress


def _report(log: PartitionLog, error: HeadraceError) -> None:
    partition, reason = str(log.partition), str(error)
    if isinstance(error, CompactionStopped | DiskFull | LogClosed):
        _log.warning("compaction_waits", partition=partition, reason=reason)
    else:
        _log.error("compaction_failed", partition=partition, reason=reason)
