"""Moving a partition's log from one log directory of a broker to another (KIP-113).

Theory of operation. The log is copied into `<topic>-<partition>.<32 hexadecimal digits>-future` in
the target (`LogMirror`), while it is used. When the copy is nearly in step, the exchange begins:

1. What recovery needs is durable in the copy, and its offsets stand in the target's checkpoints.
2. The copy gets its plain name, durably. Both directories hold the log under its name now.
3. The log goes on with the files of the copy: a change of references, under its lock.
4. The former files become `-delete`, durably, and the mark of an unfinished move is removed.

Crash: before 2 the log is where it was, and a start begins a new copy where it finds a `-future`.
Between 2 and 4 two logs have the name, one of them with the mark: `settle_half_moves` keeps the one
that reaches further. No sync ends between the two (`LogMirror`, rule 2), so whatever was promised
lies in both, or in the one that reaches further. The other one is deleted if nothing in it is
missing from the first, and kept as `-stray` if anything is.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

import structlog

from headrace.log.departed_logs import FUTURE_SUFFIX, other_name
from headrace.log.log_directory import LogDirectory
from headrace.log.log_reach import LogReach
from headrace.log.partition.log_mirror import LogMirror
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.model.error import InvalidArgument, StorageError
from headrace.model.ids import TopicPartition

_log = structlog.get_logger(__name__)

UNFINISHED_NAME = "unfinished-move"
"""A file in a copy that is not, or not yet, the only log of its partition."""


class LogMove:
    """One move of one log.

    Threads: one copies and exchanges; any may look at it or cancel it.
    """

    def __init__(
        self,
        source: LogDirectory,
        target: LogDirectory,
        log: PartitionLog,
        *,
        adopted: Callable[[], object] = lambda: None,
    ) -> None:
        """`adopted` is called when the target serves the log, and the source still does."""
        self._adopted = adopted
        self.partition = log.partition
        self.source = source
        self.target = target
        self.log = log
        self.cancelled = False
        self.done = False
        self._lock = Lock()
        self._future = target.path / other_name(log.partition, FUTURE_SUFFIX)
        self._path = self._future
        self._mirror: LogMirror | None = None

    # -- how far it is

    @property
    def starts_at_home(self) -> bool:
        """Whether the log still lies in the directory that it is to move from."""
        return self.log.path.parent == self.source.path

    @property
    def size_bytes(self) -> int:
        """How much of the log lies in the target."""
        return 0 if self._mirror is None else self._mirror.size_bytes

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind the log."""
        if self.done:
            return 0
        end = self.log.log_end_offset
        begun = self._mirror
        return max(0, end - (self.log.log_start_offset if begun is None else begun.end_offset))

    @property
    def behind_bytes(self) -> int:
        """How much is left to copy: `exchange` copies all of it."""
        return self.log.size_bytes if self._mirror is None else self._mirror.behind_bytes

    # -- the work

    def begin(self) -> None:
        """Make the directory of the copy; the move is remembered across a restart from now on.

        Raises:
            StorageError: the target is full, or has failed.
        """
        storage, topic_id = self.target.storage, self.source.topic_id(self.partition)
        filesystem = storage.filesystem
        with self._lock, storage.io(f"begin to move {self.partition}"):
            if self._mirror is not None or self.cancelled:
                return
            filesystem.make_directory(self._future)
            if topic_id is not None:
                PartitionMetadataFile(topic_id=topic_id).write(filesystem, self._future)
            filesystem.write_atomically(self._future / UNFINISHED_NAME, b"")
            filesystem.sync_directory(self.target.path)
            self._mirror = self.log.mirror(storage, self._future)

    def copy(self, max_bytes: int) -> int:
        """Copy the next bytes and return how many; 0 when there is nothing to copy for now.

        Raises:
            DiskFull: try again later.
            StorageError, LogClosed: it cannot go on; `cancel` it.
        """
        with self._lock:
            if self.cancelled or self.done or self._mirror is None:
                return 0
            self.target.storage.check_online()
            return self._mirror.copy(max_bytes)

    def exchange(self) -> bool:
        """Copy what is left, and let the log go on in the target; return whether it does now."""
        with self._lock:
            if self.cancelled or self.done or self._mirror is None:
                return self.done
            return self._mirror.exchange(self)

    def cancel(self) -> None:
        """End the move, unless it is done, and remove the copy. Waits for what is under way."""
        self.cancelled = True
        with self._lock:
            if self.done:
                return
            storage = self.target.storage
            if self._path != self._future and self.demote() != self._future:
                return  # half a log must not lie there under a plain name; a start settles it
            storage.files.forget_directory(self._future)
            # An offline or full target keeps it; a start looks at it again.
            with suppress(StorageError), storage.io(f"remove the copy of {self.partition}"):
                if storage.filesystem.exists(self._future):
                    storage.filesystem.remove_tree(self._future)
                    storage.filesystem.sync_directory(self.target.path)
            with suppress(StorageError):
                self.target.expect_no_more(self.partition)

    # -- `Destination`

    def promote(self, *, log_start: int, recovery_point: int, high_watermark: int) -> Path:
        target, final = self.target, self.target.path / str(self.partition)
        if not self.starts_at_home:
            raise InvalidArgument(f"{self.partition} is not in {self.source.path} any more")
        if self._path != final:
            if self.partition in target:
                raise InvalidArgument(f"{target.path} has another log of {self.partition}")
            target.departed.clear(self.partition)
        target.expect(
            self.partition,
            log_start=log_start,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
        )
        if self._path != final:
            with target.storage.io(f"move {self.partition}"):
                target.storage.files.forget_directory(self._path)
                target.storage.filesystem.replace(self._path, final)
                self._path = final
                target.storage.filesystem.sync_directory(target.path)
        return final

    def demote(self) -> Path:
        target = self.target
        with suppress(StorageError), target.storage.io(f"stop the move of {self.partition}"):
            target.storage.files.forget_directory(self._path)
            target.storage.filesystem.replace(self._path, self._future)
            self._path = self._future
            target.storage.filesystem.sync_directory(target.path)
        return self._path

    def exchanged(self) -> None:
        self.done = True
        self.target.adopt(self.log, self.source.topic_id(self.partition))
        self._adopted()
        try:
            self.source.hand_over(self.partition)
            _remove_mark(self.target, self.partition)
        except StorageError as error:
            # Its directory is offline, or full (`DepartedLogs.leave`). A start that finds two logs
            # takes the one that goes on.
            _log.error("moved_log_not_deleted", partition=str(self.partition), reason=str(error))
        _log.info(
            "log_moved",
            partition=str(self.partition),
            source=str(self.source.path),
            target=str(self.target.path),
        )

    def rolled(self, partition: TopicPartition) -> None:
        self.target.flush_later(partition)


def settle_half_moves(
    directories: Sequence[LogDirectory],
) -> list[tuple[TopicPartition, LogDirectory]]:
    """Decide, at a start, which log goes on where a crash came between the renames of a move.

    Returns:
        The moves to begin again: a partition, and where it was to go.
    """
    again: list[tuple[TopicPartition, LogDirectory]] = []
    online = [each for each in directories if each.offline is None]
    for target in online:
        for partition in target.partitions:
            if not _is_marked(target, partition):
                continue
            others = [each for each in online if each is not target and partition in each]
            try:
                if _settle(partition, target, others):
                    again.append((partition, target))
            except StorageError as error:
                _log.error("half_move_not_settled", partition=str(partition), reason=str(error))
    return again


def take_futures(
    directories: Sequence[LogDirectory],
) -> list[tuple[TopicPartition, LogDirectory]]:
    """Remove the copies that an earlier process left, and return whose they were: they are begun
    again, for the log may have changed in ways that a half copy does not show."""
    wanted: list[tuple[TopicPartition, LogDirectory]] = []
    partitions = {
        other_name(each, "").rpartition(".")[0]: each
        for directory in directories
        for each in directory.partitions
    }
    for target in directories:
        storage, names = target.storage, target.left_futures
        target.left_futures = []
        for name in names:
            partition = partitions.get(name.rpartition(".")[0])
            path = target.path / name
            try:
                with storage.io(f"remove {name}"):
                    metadata = PartitionMetadataFile.read(storage.filesystem, path)
                    storage.filesystem.remove_tree(path)
                if partition is None or metadata is None:
                    continue
                holders = (each for each in directories if partition in each and each != target)
                if any(each.topic_id(partition) == metadata.topic_id for each in holders):
                    wanted.append((partition, target))
            except StorageError as error:
                _log.error("copy_not_removed", path=str(path), reason=str(error))
    return wanted


def _settle(
    partition: TopicPartition, target: LogDirectory, others: Iterable[LogDirectory]
) -> bool:
    """Keep one of the logs; return whether that is not the target's."""
    best = target
    rest: list[LogDirectory] = []
    for other in others:
        if other.topic_id(partition) != target.topic_id(partition):
            continue  # of another topic: a stray, which is not ours to judge
        if LogReach.of(other.get(partition)).is_beyond(LogReach.of(best.get(partition))):
            best, other = other, best
        rest.append(other)
    for loser in rest:
        kept = not _holds_all_of(best.get(partition), loser.get(partition))
        _log.info(
            "half_move_settled",
            partition=str(partition),
            served=str(best.path),
            left=str(loser.path),
            kept_as_stray=kept,
        )
        if kept:
            loser.set_aside(partition)
        else:
            loser.delete(partition)
    if best is target:
        _remove_mark(target, partition)
    return best is not target


def _holds_all_of(best: PartitionLog, other: PartitionLog) -> bool:
    """Return whether all that a log has lies in another one as well, by offsets and epochs."""
    end = other.log_end_offset
    if end <= other.log_start_offset:
        return True
    return (
        best.log_start_offset <= other.log_start_offset
        and best.log_end_offset >= end
        and best.epochs.epoch_at(end - 1) == other.epochs.epoch_at(end - 1)
    )


def _is_marked(directory: LogDirectory, partition: TopicPartition) -> bool:
    storage = directory.storage
    try:
        with storage.io(f"look at {partition}"):
            return storage.filesystem.exists(directory.path / str(partition) / UNFINISHED_NAME)
    except StorageError:
        return False


def _remove_mark(directory: LogDirectory, partition: TopicPartition) -> None:
    path = directory.path / str(partition) / UNFINISHED_NAME
    with directory.storage.io(f"finish the move of {partition}"):
        if directory.storage.filesystem.exists(path):
            directory.storage.filesystem.remove(path)
