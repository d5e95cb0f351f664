"""Chooses which log of a log directory is compacted next, and remembers how far each one is."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import structlog

from headrace.log.checkpoint import CLEANER_NAME, OffsetCheckpoint
from headrace.log.cleanable import CleanableRange, cleanable_range, first_dirty_offset
from headrace.log.filesystem import FileSystem
from headrace.log.partition_log import PartitionLog
from headrace.model.clock import Clock
from headrace.model.error import UncleanableLog
from headrace.model.ids import TopicPartition
from headrace.model.offset import Offset

if TYPE_CHECKING:
    # Brings numba, which costs most of a second: loaded by whoever makes the compactor.
    from headrace.log.compaction import CleanStats, Compactor

_log = structlog.get_logger(__name__)


class Cleaner:
    """Compacts the logs of one log directory, the dirtiest first, one round a call.

    The progress of each log is in `cleaner-offset-checkpoint`: the first offset that is not
    compacted. It is written after a round. A crash before that costs the round once more, nothing
    else.

    Threads: one calls `run_once`; any may call the rest.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        directory: Path,
        clock: Clock,
        logs: Callable[[], Iterable[PartitionLog]],
    ) -> None:
        """`logs` gives all logs of the directory, compacted or not."""
        self._clock = clock
        self._logs = logs
        self._checkpoint = OffsetCheckpoint(filesystem, directory / CLEANER_NAME)
        self._first_dirty: dict[TopicPartition, Offset] | None = None
        self._lock = Lock()
        # Compaction met something in these that it cannot open; asking again would not help.
        self.uncleanable: dict[TopicPartition, str] = {}

    def run_once(self, compactor: "Compactor") -> "CleanStats | None":
        """Compact the log that needs it most; None when none does.

        A log that cannot be compacted is set aside, with a line in the log, until the next start.

        Raises:
            StorageError: the directory went offline.
            CompactionStopped: the compactor was told to stop, or the log changed under it.
        """
        chosen = self._dirtiest()
        if chosen is None:
            return None
        log, cleanable = chosen
        try:
            stats = compactor.clean(log, cleanable)
        except UncleanableLog as error:
            self.uncleanable[log.partition] = str(error)
            _log.error("log_uncleanable", partition=str(log.partition), reason=str(error))
            return None
        self._save(log, stats.end_offset)
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
        """What could be compacted in `log` now, worthwhile or not."""
        with self._lock:
            checkpoint = self._progress().get(log.partition)
        return cleanable_range(
            log.segments,
            log.config,
            first_dirty=first_dirty_offset(
                checkpoint, log_start=log.log_start_offset, log_end=log.log_end_offset
            ),
            last_stable=log.last_stable_offset,
            now_ms=self._clock.wall_ms(),
        )

    def truncated(self, partition: TopicPartition, offset: int) -> None:
        """A log was cut: what comes after `offset` from now on has never been compacted.

        Whoever truncates a log says so before the next append, otherwise new records below the old
        progress would count as compacted.
        """
        with self._lock:
            progress = self._progress()
            if progress.get(partition, Offset(0)) > offset:
                progress[partition] = Offset(offset)
                self._checkpoint.write(progress)

    def _dirtiest(self) -> tuple[PartitionLog, CleanableRange] | None:
        candidates = []
        for log in self._logs():
            if log.config.compacted and log.partition not in self.uncleanable:
                cleanable = self.cleanable(log)
                if cleanable.worthwhile(log.config):
                    candidates.append((log, cleanable))
        return max(candidates, key=lambda candidate: candidate[1].dirty_ratio, default=None)

    def _save(self, log: PartitionLog, end_offset: Offset) -> None:
        present = {log.partition for log in self._logs()}
        with self._lock:
            progress = {
                partition: offset
                for partition, offset in self._progress().items()
                if partition in present
            }
            progress[log.partition] = end_offset
            self._first_dirty = progress
            self._checkpoint.write(progress)

    def _progress(self) -> dict[TopicPartition, Offset]:
        if self._first_dirty is None:
            self._first_dirty = self._checkpoint.read()
        return self._first_dirty
