"""A directory of partition logs: which process may use it, what lies in it, and where recovery
starts.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from os import cpu_count
from pathlib import Path
from threading import Lock

import structlog

from headrace.log.background_flush import BackgroundFlush
from headrace.log.clean_mark import CleanMark
from headrace.log.departed_logs import FUTURE_SUFFIX, DepartedLogs, partition_of
from headrace.log.directory_lock import DirectoryLock
from headrace.log.directory_offsets import DirectoryOffsets
from headrace.log.file_pool import FilePool
from headrace.log.filesystem import Disk, FileSystem
from headrace.log.index.index_cache import IndexCache
from headrace.log.log_configs import LogConfigs
from headrace.log.meta_properties import MetaProperties
from headrace.log.parallel import for_each
from headrace.log.partition.loader import RecoveryReport, load_log, new_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.log.producer.producer_state import DEFAULT_EXPIRATION_MS
from headrace.log.saved_offsets import SavedOffsets
from headrace.log.storage import Storage
from headrace.log.topic_ids import TopicIds
from headrace.model.clock import Clock, SystemClock
from headrace.model.error import DiskFull, InvalidArgument, LogClosed, StorageError
from headrace.model.ids import TopicId, TopicPartition, topic_name_problem
from headrace.model.topic_config import LogConfig

_log = structlog.get_logger(__name__)


class LogDirectory:
    """The logs below one path, opened when they are first asked for.

    Files of its own: `.lock`, `meta.properties`, the three offset checkpoints, and
    `.kafka_cleanshutdown`, which exists only while no process uses it.

    Invariant: the recovery point in the checkpoint is never above what is durable. It is written
    late when it rises (`checkpoint`) and before anything else when it falls (truncation).

    Crash: without the clean marker every log is recovered when the directory is opened, in
    parallel. With it nothing is read: a log whose recovery point is its end has nothing
    to scan, so a crash before it was first used costs nothing either.

    Threads: any may call any method.
    """

    meta: MetaProperties
    """Whose directory this is; a new one gets a random cluster id when none is given."""

    def __init__(
        self,
        path: Path,
        filesystem: FileSystem,
        clock: Clock,
        lock: DirectoryLock,
        configs: Callable[[str], LogConfig],
        *,
        files: FilePool | None,
        indexes: IndexCache | None,
        recovery_threads: int | None,
        background: bool,
    ) -> None:
        """Use `open`."""
        self.path = path
        self.recovered: dict[TopicPartition, RecoveryReport] = {}
        self._storage = Storage(
            filesystem, clock, files=files, indexes=indexes, save_offsets=self._save_offsets
        )
        self._directory_lock = lock
        self.configs = LogConfigs(configs)
        self._lock = Lock()
        self._saving = Lock()
        self._loading: dict[TopicPartition, Lock] = {}
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._known: set[TopicPartition] = set()
        self._topic_ids = TopicIds(self._storage, path, self._known, self._lock)
        self._new: list[PartitionLog] = []
        self._mark = CleanMark(filesystem, path)
        self.departed = DepartedLogs(self._storage, path, self._mark.trust)
        self._offsets = DirectoryOffsets(filesystem, path)
        self.left_futures: list[str] = []
        self._threads = recovery_threads or cpu_count() or 1
        self._background = BackgroundFlush() if background else None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        node_id: int = 0,
        cluster_id: str | None = None,
        configs: Callable[[str], LogConfig] = lambda _: LogConfig(),
        filesystem: FileSystem | None = None,
        clock: Clock | None = None,
        files: FilePool | None = None,
        indexes: IndexCache | None = None,
        recovery_threads: int | None = None,
        background: bool = True,
    ) -> "LogDirectory":
        """Take the directory, create it if need be, and recover what a crash left.

        Args:
            configs: the configuration of a topic by its name.
            files, indexes: shared between the directories of one broker.
            recovery_threads: open so many logs side by side; None for one per core.
            background: flush rolled segments in a thread; without, `maintain` does it.

        Raises:
            LogDirectoryLocked: another process uses it.
            CorruptLog: synced records are damaged, or the directory belongs to another node.
            StorageError: the disk refuses.
        """
        filesystem = Disk() if filesystem is None else filesystem
        directory = cls(
            path,
            filesystem,
            clock or SystemClock(),
            DirectoryLock.acquire(filesystem, path, make=True),
            configs,
            files=files,
            indexes=indexes,
            recovery_threads=recovery_threads,
            background=background,
        )
        try:
            directory._start(node_id, cluster_id)
        except BaseException:
            directory._let_go()
            raise
        return directory

    def _start(self, node_id: int, cluster_id: str | None) -> None:
        storage, filesystem = self._storage, self._storage.filesystem
        with storage.io(f"open {self.path}"):
            self.meta = MetaProperties.claim(filesystem, self.path, node_id, cluster_id)
            names = filesystem.list(self.path)
            self.departed.find(names)
            self.departed.remove_due()  # first: what follows may need the room
            found = (partition_of(name) for name in names)
            self._known.update(partition for partition in found if partition is not None)
            self.left_futures = [name for name in names if name.endswith(FUTURE_SUFFIX)]
            self._offsets.read(self._known)
            clean = self._mark.take(self._known)
            filesystem.sync_directory(self.path)
        if self._known and not clean:
            self._recover_all()
        count = len(self._known)
        _log.info("log_directory_opened", path=str(self.path), partitions=count, clean=clean)

    def _recover_all(self) -> None:
        for_each(self._recover, sorted(self._known), self._threads, "log-recovery")
        with suppress(DiskFull):  # the next one is written when there is room
            self.checkpoint()
        cut = sum(each.cut_bytes for each in self.recovered.values())
        scanned = sum(each.scanned_bytes for each in self.recovered.values())
        _log.info("logs_recovered", path=str(self.path), scanned_bytes=scanned, cut_bytes=cut)

    def _recover(self, partition: TopicPartition) -> None:
        try:
            self.get(partition)
        except DiskFull as error:  # the others are served: reading needs no room
            _log.error("log_not_opened", partition=str(partition), reason=str(error))

    # -- partitions ----------------------------------------------------------------------------

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that are here, opened or not."""
        with self._lock:
            return sorted(self._known)

    @property
    def changes(self) -> int:
        return self._storage.changes  # of log starts, and the failure of the disk

    @property
    def offline(self) -> StorageError | None:
        """The error that took the directory offline; None while it serves."""
        return self._storage.failure

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def log_count(self) -> int:
        """How many logs are here, opened or not."""
        return len(self._known)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._known

    def get(self, partition: TopicPartition) -> PartitionLog:
        """Return the log of a partition, opened if it is not yet.

        Raises:
            InvalidArgument: it is not here.
            StorageError: the directory is, or goes, offline.
        """
        log = self._logs.get(partition)
        if log is not None:
            return log
        with self._lock:
            if partition not in self._known:
                raise InvalidArgument(f"{self.path} has no log of {partition}")
            loading = self._loading.setdefault(partition, Lock())
        with loading:
            log = self._logs.get(partition)
            if log is None and partition not in self._known:
                raise InvalidArgument(f"{self.path} has no log of {partition} any more")
            return self._load(partition) if log is None else log

    def is_open(self, partition: TopicPartition) -> bool:
        return partition in self._logs

    def open_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Open logs ahead of their first use. One that does not open says why when it is used."""
        closed = [each for each in partitions if each not in self._logs]
        for_each(self._open_ahead, closed, self._threads, "log-open")

    def _open_ahead(self, partition: TopicPartition) -> None:
        with suppress(StorageError, InvalidArgument):
            self.get(partition)

    def _load(self, partition: TopicPartition) -> PartitionLog:
        changes = self.configs.changes
        log, recovered = load_log(
            self._storage,
            partition,
            self.path / str(partition),
            self.configs.of_topic(partition.topic),
            log_start=self._offsets.log_starts.get(partition),
            recovery_point=self._offsets.recovery_points.get(partition),
            high_watermark=self._offsets.high_watermarks.get(partition),
            clean=self._mark.speaks_for(partition),
            on_roll=self.flush_later,
        )
        with self.configs.joining(log, changes), self._lock:
            self._logs[partition] = log
            self._mark.trust(partition)
            self._loading.pop(partition, None)
            if any((recovered.scanned_bytes, recovered.cut_bytes, recovered.rebuilt_indexes)):
                self.recovered[partition] = recovered
        return log

    def topic_id(self, partition: TopicPartition) -> TopicId | None:
        """Return the id of the topic this log belongs to, None when none was written."""
        return self._topic_ids.of(partition)

    def set_topic_id(self, partition: TopicPartition, topic_id: TopicId) -> None:
        """Write down of which topic a log is that was written without (`TopicIds.write`)."""
        self._topic_ids.write(partition, topic_id)

    def create(self, partition: TopicPartition, topic_id: TopicId | None = None) -> PartitionLog:
        """Create an empty log; return the log that is there if there is one (`create_all`)."""
        self.create_all(partition.topic, [partition.partition], topic_id)
        return self.get(partition)

    def create_all(self, topic: str, numbers: Iterable[int], topic_id: TopicId | None) -> None:
        """Create the logs of a topic's partitions that are not here.

        Nothing of them is durable on return. A thread sees to it after `sync_new`, and their first
        records do in any case: a crash before that may leave no log.
        """
        if problem := topic_name_problem(topic):
            raise InvalidArgument(problem)
        partitions = [TopicPartition(topic, number) for number in numbers]
        with self._lock:
            missing = [each for each in partitions if each not in self._known]
        changes, config = self.configs.changes, self.configs.of_topic(topic)
        for partition in missing:
            if partition.partition < 0:
                raise InvalidArgument(f"{partition} cannot be: partitions count from 0")
            log = self._make(partition, topic_id, config)
            with self.configs.joining(log, changes), self._lock:
                self._known.add(partition)
                self._topic_ids.note(partition, topic_id)
                if log is not None:
                    self._logs[partition] = log
                    self._new.append(log)
        self.open_all(missing)  # those in whose place something lay

    def _make(
        self, partition: TopicPartition, topic_id: TopicId | None, config: LogConfig
    ) -> PartitionLog | None:
        """Return the new log; None when something lies there that must be opened."""
        path, filesystem = self.path / str(partition), self._storage.filesystem
        with self._storage.io(f"create {partition}"):
            used = self.departed.make_way(partition, topic_id)
            with self._saving:
                self._offsets.forget(partition)
            filesystem.make_directory(path)
            if topic_id is not None:
                PartitionMetadataFile(topic_id=topic_id).write_new(filesystem, path)
        if used:
            return None
        return new_log(self._storage, partition, path, config, self.flush_later)

    def sync_new(self) -> None:
        """Let a thread make the logs durable that were created since the last call."""
        with self._lock:
            new, self._new = self._new, []
        if self._background is not None:
            for log in new:
                self._background.sync(log)

    def delete(self, *partitions: TopicPartition) -> None:
        """Remove partitions at once, with one sync and one round of checkpoints for all; their
        files go with `remove_deleted`, after a delay."""
        self._leave(partitions, keep=False)

    def set_aside(self, *partitions: TopicPartition) -> None:
        """Stop serving partitions that no topic accounts for, and keep their files as `-stray`."""
        self._leave(partitions, keep=True)

    def _leave(self, partitions: Sequence[TopicPartition], *, keep: bool) -> None:
        """Rename directories. Those for which there is no room keep their names and stay known:
        their records must not be taken for those of a new topic."""
        with self._lock:
            staying = {each: None for each in partitions if each in self._known}
            self._known.difference_update(staying)
            loading = [self._loading[each] for each in staying if each in self._loading]
        for lock in loading:
            with lock:
                pass  # a log that is being opened would find its files gone
        with self._lock:
            leaving = [(each, self._logs.pop(each, None)) for each in staying]
        for _, log in leaving:
            if log is not None:
                log.abandon()
        try:
            with self._storage.io(f"rename {len(leaving)} logs"):
                for partition, log in leaving:
                    of_topic = self.configs.of_topic
                    config = of_topic(partition.topic) if log is None else log.config
                    self.departed.rename(partition, None if keep else config.file_delete_delay_ms)
                    del staying[partition]
                    self._topic_ids.forget(partition)
                if leaving:
                    self._storage.filesystem.sync_directory(self.path)
        finally:
            if self._storage.failure is None:
                with self._lock:
                    self._known.update(staying)
                    self._mark.doubt(staying)  # those were not closed
                with suppress(DiskFull), self._storage.io(f"forget {len(leaving)} logs"):
                    self._save_offsets()

    # -- a log that moves between two directories (`LogMove`) ------------------------------------

    def expect(self, partition: TopicPartition, **offsets: int) -> None:
        """Write down with which offsets a start opens a copy that gets its plain name next."""
        with self._storage.io(f"expect {partition}"), self._saving:
            self._offsets.put(partition, **offsets)

    def expect_no_more(self, partition: TopicPartition) -> None:
        """Forget what was written down for a copy that does not come."""
        with self._storage.io(f"forget {partition}"), self._saving:
            if partition in self._offsets.arriving:
                self._offsets.forget(partition)

    def adopt(self, log: PartitionLog, topic_id: TopicId | None) -> None:
        """Serve a log that goes on in this directory."""
        with self.configs.joining(log, -1), self._lock:
            self._known.add(log.partition)
            self._logs[log.partition] = log
            self._mark.trust(log.partition)
            self._topic_ids.note(log.partition, topic_id)
            self._offsets.arriving.discard(log.partition)

    def hand_over(self, partition: TopicPartition) -> None:
        """Delete what is left here of a log that goes on in another directory; on a full disk, what
        keeps its name is renamed by the next `maintain`."""
        with self._lock:
            log = self._logs.pop(partition)
            self._known.discard(partition)
            self._topic_ids.forget(partition)
            self._mark.doubt((partition,))
        self.departed.leave(partition, log.config.file_delete_delay_ms)
        with suppress(DiskFull), self._storage.io(f"forget {partition}"):
            self._save_offsets()

    def flush_later(self, partition: TopicPartition) -> None:
        """Let a thread flush a log that has rolled a segment."""
        log = self._logs.get(partition)
        if self._background is not None and log is not None:
            self._background.flush(log)

    def remove_deleted(self) -> int:
        """Remove the files of partitions that were deleted file.delete.delay.ms ago."""
        return self.departed.remove_due()

    def configure(self, *topics: str) -> None:
        """Give the open logs of topics, or all logs, their configuration, which has changed."""
        self.configs.give(
            lambda: [log for log in self.open_logs() if not topics or log.partition.topic in topics]
        )

    # -- upkeep --------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks, and drop what snapshots no
        recovery needs any more. Once a minute is what Kafka does."""
        with self._storage.io(f"checkpoint {self.path}"):
            self._save_offsets()
        self.save_high_watermarks()
        for log in self.open_logs():
            log.prune_snapshots(self._offsets.recovery_points.get(log.partition))

    def save_high_watermarks(self) -> None:
        """Write down high watermarks: every five seconds, as Kafka does."""
        with self._storage.io(f"checkpoint {self.path}"), self._saving:
            self._save(self._offsets.high_watermarks, lambda log: log.high_watermark)

    def _save_offsets(self) -> None:
        with self._saving:
            self._save(self._offsets.log_starts, lambda log: log.log_start_offset)
            self._save(self._offsets.recovery_points, lambda log: log.recovery_point)

    def _save(self, saved: SavedOffsets, of: Callable[[PartitionLog], int]) -> None:
        with self._lock:
            logs, known = list(self._logs.items()), self._known | self._offsets.arriving
        saved.save(known, ((key, of(log)) for key, log in logs))

    def maintain(self, *, producer_expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        """Apply retention, delayed deletion and expiry, and write checkpoints, every few minutes.
        Logs that were not used since the start are opened for it, one after the other."""
        full: DiskFull | None = None
        for partition in self.partitions:
            try:
                self.get(partition).maintain(producer_expiration_ms)
            except (InvalidArgument, LogClosed):
                continue  # deleted or moved meanwhile
            except DiskFull as error:
                full = error  # another log may still make room
        self.remove_deleted()
        for partition, topic_id in self._topic_ids.owed():
            with self._lock:
                loading = self._loading.setdefault(partition, Lock())
            with loading:
                if partition in self._known:  # `_leave` waits for the lock before it renames
                    self.set_topic_id(partition, topic_id)
        self.checkpoint()
        if full is not None:
            raise full

    def sync_due(self) -> int:
        """Sync the logs whose flush.ms or flush.messages is due; return how many there were."""
        due = [log for log in self.open_logs() if log.sync_due()]
        for log in due:
            with suppress(LogClosed):  # deleted meanwhile
                log.sync()
        return len(due)

    def open_logs(self) -> list[PartitionLog]:
        """Return the logs that have been used since the start."""
        with self._lock:
            return list(self._logs.values())

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush all logs and mark the directory clean. An offline one is only let go of."""
        try:
            if self._background is not None:
                self._background.stop()
            if self._storage.failure is None:
                # Closing is waiting for the disk, which takes many at once.
                for_each(PartitionLog.close, self.open_logs(), 8, "log-close")
                self.checkpoint()
                with self._storage.io(f"close {self.path}"):
                    self._mark.write()
        except DiskFull as error:
            # Without the mark the next start looks at what was not flushed, as after a crash.
            _log.warning("log_directory_not_clean", path=str(self.path), reason=str(error))
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._background is not None:
            self._background.stop()
        for log in self.open_logs():
            log.abandon()
        with self._lock:
            self._logs.clear()
        self._storage.files.forget_tree(self.path)
        self._directory_lock.release()
