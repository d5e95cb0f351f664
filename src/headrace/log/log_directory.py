"""A directory of partition logs: which process may use it, what lies in it, and where recovery
starts.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path
from threading import Lock
from typing import TypeVar
from uuid import uuid4

import structlog

from headrace.log.directory_lock import DirectoryLock
from headrace.log.file_pool import FilePool
from headrace.log.filesystem import Disk, FileSystem
from headrace.log.index.index_cache import IndexCache
from headrace.log.meta_properties import MetaProperties
from headrace.log.offset_checkpoint import (
    LOG_START_NAME,
    RECOVERY_POINT_NAME,
    REPLICATION_NAME,
    OffsetCheckpoint,
)
from headrace.log.partition.loader import RecoveryReport, load_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.log.producer.producer_state import DEFAULT_EXPIRATION_MS
from headrace.log.storage import Storage
from headrace.model.clock import Clock, SystemClock
from headrace.model.error import HeadraceError, InvalidArgument, LogClosed, StorageError
from headrace.model.ids import BrokerId, TopicId, TopicPartition, topic_name_problem
from headrace.model.offset import Offset
from headrace.model.topic_config import LogConfig

_Item = TypeVar("_Item")
_log = structlog.get_logger(__name__)

CLEAN_SHUTDOWN_NAME = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN = b'{"version":0,"brokerEpoch":-1}'
_DELETE_SUFFIX = "-delete"
_NAME_MAX = 255
# The Raft log of an Apache Kafka controller that shares the directory: not ours to open.
_KRAFT_TOPIC = "__cluster_metadata"


def _default_config(topic: str) -> LogConfig:
    return LogConfig()


class LogDirectory:
    """The logs below one path, opened when they are first asked for.

    Files of its own: `.lock`, `meta.properties` (whose directory it is), the three offset
    checkpoints, and `.kafka_cleanshutdown`, which exists only while no process uses it.

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
        background: bool,
    ) -> None:
        """Use `open`."""
        self.path = path
        self.recovered: dict[TopicPartition, RecoveryReport] = {}
        self._storage = Storage(
            filesystem, clock, files=files, indexes=indexes, save_offsets=self._save_offsets
        )
        self._directory_lock = lock
        self._configs = configs
        self._lock = Lock()
        self._saving = Lock()
        self._loading: dict[TopicPartition, Lock] = {}
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._known: set[TopicPartition] = set()
        self._deleted: list[tuple[int, Path]] = []
        self._recovery_points = OffsetCheckpoint(filesystem, path / RECOVERY_POINT_NAME)
        self._log_starts = OffsetCheckpoint(filesystem, path / LOG_START_NAME)
        self._high_watermarks = OffsetCheckpoint(filesystem, path / REPLICATION_NAME)
        self._saved: dict[str, dict[TopicPartition, Offset]] = {}
        self._clean = False
        self._flusher: ThreadPoolExecutor | None = None
        if background:
            self._flusher = ThreadPoolExecutor(1, thread_name_prefix="log-flush")

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        node_id: int = 0,
        cluster_id: str | None = None,
        configs: Callable[[str], LogConfig] = _default_config,
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
            background: flush rolled segments in a thread; without, `maintain` does it.

        Raises:
            LogDirectoryLocked: another process uses it.
            CorruptLog: synced records are damaged, or the directory belongs to another node.
            StorageError: the disk refuses.
        """
        filesystem = Disk() if filesystem is None else filesystem
        try:
            missing = [each for each in (path, *path.parents) if not filesystem.exists(each)]
            filesystem.make_directory(path)
            for each in missing:
                filesystem.sync_directory(each.parent)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be used for logs: {error.strerror or error}"
            ) from error
        lock = DirectoryLock.acquire(filesystem, path)
        directory = cls(
            path,
            filesystem,
            clock or SystemClock(),
            lock,
            configs,
            files=files,
            indexes=indexes,
            background=background,
        )
        try:
            directory._start(node_id, cluster_id, recovery_threads)
        except BaseException:
            directory._let_go()
            raise
        return directory

    def _start(self, node_id: int, cluster_id: str | None, threads: int | None) -> None:
        storage = self._storage
        filesystem = storage.filesystem
        with storage.io(f"open {self.path}"):
            self._claim(node_id, cluster_id)
            for name in filesystem.list(self.path):
                if name.endswith(_DELETE_SUFFIX):
                    self._deleted.append((storage.clock.monotonic_ms(), self.path / name))
                elif (partition := _partition_of(name)) is not None:
                    self._known.add(partition)
            for checkpoint in (self._recovery_points, self._log_starts, self._high_watermarks):
                self._read_saved(checkpoint)
            marker = self.path / CLEAN_SHUTDOWN_NAME
            self._clean = filesystem.exists(marker)
            if self._clean:
                filesystem.remove(marker)
            filesystem.sync_directory(self.path)
        if not self._clean:
            self._recover_all(threads or cpu_count() or 1)
        _log.info(
            "log_directory_opened",
            path=str(self.path),
            partitions=len(self._known),
            clean=self._clean,
        )

    def _read_saved(self, checkpoint: OffsetCheckpoint) -> None:
        """Read a checkpoint, without the entries of partitions that are gone: a new partition of
        the same name must not get them.
        """
        stored = checkpoint.read()
        known = {key: offset for key, offset in stored.items() if key in self._known}
        if known != stored:
            checkpoint.write(known)
        self._saved[checkpoint.path.name] = known

    def _claim(self, node_id: int, cluster_id: str | None) -> None:
        """Read to which node and cluster the directory belongs: those that used it first."""
        filesystem = self._storage.filesystem
        stored = MetaProperties.read(filesystem, self.path)
        if stored is None:
            self.meta = MetaProperties(
                node_id=BrokerId(node_id),
                cluster_id=cluster_id or _new_cluster_id(),
                directory_id=uuid4(),
            )
            self.meta.write(filesystem, self.path)
            return
        self.meta = stored
        if stored.node_id is not None and stored.node_id != node_id:
            raise StorageError(
                f"{self.path} belongs to node {stored.node_id}, and this is node {node_id}: "
                "use its own directory, or set node.id"
            )
        if cluster_id and stored.cluster_id and stored.cluster_id != cluster_id:
            raise StorageError(
                f"{self.path} belongs to cluster {stored.cluster_id}, and this is {cluster_id}"
            )

    def _recover_all(self, threads: int) -> None:
        partitions = sorted(self._known)
        if not partitions:
            return
        _for_each(self.get, partitions, threads, "log-recovery")
        self.checkpoint()
        cut = sum(each.cut_bytes for each in self.recovered.values())
        scanned = sum(each.scanned_bytes for each in self.recovered.values())
        _log.info("logs_recovered", path=str(self.path), scanned_bytes=scanned, cut_bytes=cut)

    # -- partitions ----------------------------------------------------------------------------

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that are here, opened or not."""
        with self._lock:
            return sorted(self._known)

    @property
    def offline(self) -> StorageError | None:
        """The error that took the directory offline; None while it serves."""
        return self._storage.failure

    @property
    def storage(self) -> Storage:
        return self._storage

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
            return self._load(partition) if log is None else log

    def _load(self, partition: TopicPartition) -> PartitionLog:
        log, recovered = load_log(
            self._storage,
            partition,
            self.path / str(partition),
            self._configs(partition.topic),
            log_start=self._saved[LOG_START_NAME].get(partition, 0),
            recovery_point=self._saved[RECOVERY_POINT_NAME].get(partition, 0),
            high_watermark=self._saved[REPLICATION_NAME].get(partition, 0),
            clean=self._clean,
            on_roll=self._flush_later,
        )
        with self._lock:
            self._logs[partition] = log
            self._loading.pop(partition, None)
            if any((recovered.scanned_bytes, recovered.cut_bytes, recovered.rebuilt_indexes)):
                self.recovered[partition] = recovered
        return log

    def topic_id(self, partition: TopicPartition) -> TopicId | None:
        """Return the id of the topic this log belongs to, None when none was written."""
        with self._storage.io(f"read the topic id of {partition}"):
            metadata = PartitionMetadataFile.read(
                self._storage.filesystem, self.path / str(partition)
            )
        return None if metadata is None else metadata.topic_id

    def create(self, partition: TopicPartition, topic_id: TopicId | None = None) -> PartitionLog:
        """Create an empty log, durable on return; return the log that is there if there is one."""
        if problem := topic_name_problem(partition.topic):
            raise InvalidArgument(problem)
        if partition.partition < 0:
            raise InvalidArgument(f"{partition} cannot be: partitions count from 0")
        with self._lock:
            known = partition in self._known
        if not known:
            directory = self.path / str(partition)
            filesystem = self._storage.filesystem
            with self._storage.io(f"create {partition}"):
                filesystem.make_directory(directory)
                if topic_id is not None:
                    PartitionMetadataFile(topic_id=topic_id).write(filesystem, directory)
                filesystem.sync_directory(self.path)
            with self._lock:
                self._known.add(partition)
        return self.get(partition)

    def delete(self, partition: TopicPartition) -> None:
        """Remove a partition at once; its files go with `remove_deleted`, after a delay."""
        log = self.get(partition)
        with self._lock:
            self._known.discard(partition)
            self._logs.pop(partition, None)
        log.abandon()
        tail = f"-{partition.partition}.{uuid4().hex}{_DELETE_SUFFIX}"
        renamed = self.path / (partition.topic[: _NAME_MAX - len(tail)] + tail)
        with self._storage.io(f"delete {partition}"):
            self._storage.files.forget_tree(log.path)
            self._storage.filesystem.replace(log.path, renamed)
            self._storage.filesystem.sync_directory(self.path)
            self._save_offsets()
        due_ms = self._storage.clock.monotonic_ms() + log.config.file_delete_delay_ms
        with self._lock:
            self._deleted.append((due_ms, renamed))

    def remove_deleted(self) -> int:
        """Remove the files of partitions that were deleted file.delete.delay.ms ago."""
        now_ms = self._storage.clock.monotonic_ms()
        with self._lock:
            due = [path for due_ms, path in self._deleted if due_ms <= now_ms]
            self._deleted = [item for item in self._deleted if item[0] > now_ms]
        for path in due:
            with self._storage.io(f"remove {path.name}"):
                self._storage.filesystem.remove_tree(path)
        return len(due)

    def configure(self, topic: str) -> None:
        """Give the open logs of a topic its configuration, which has changed."""
        with self._lock:
            logs = [log for key, log in self._logs.items() if key.topic == topic]
        config = self._configs(topic)
        for log in logs:
            log.config = config

    def configure_all(self) -> None:
        """Give every open log its topic's configuration: the broker's defaults have changed."""
        with self._lock:
            logs = list(self._logs.items())
        configs = {topic: self._configs(topic) for topic in {key.topic for key, _ in logs}}
        for key, log in logs:
            log.config = configs[key.topic]

    # -- upkeep --------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks, and drop what snapshots no
        recovery needs any more. Once a minute is what Kafka does."""
        with self._storage.io(f"checkpoint {self.path}"):
            self._save_offsets()
            with self._saving:
                self._save(self._high_watermarks, lambda log: log.high_watermark)
        for log in self.open_logs():
            durable = self._saved[RECOVERY_POINT_NAME].get(log.partition, Offset(0))
            log.prune_snapshots(durable)

    def _save_offsets(self) -> None:
        with self._saving:
            self._save(self._log_starts, lambda log: log.log_start_offset)
            self._save(self._recovery_points, lambda log: log.recovery_point)
            self._forget_gone(self._high_watermarks)

    def _forget_gone(self, checkpoint: OffsetCheckpoint) -> None:
        """Drop what was written of partitions that are gone: one that is created again under the
        same name would begin, after a crash, with the high watermark of the one before."""
        before = self._saved[checkpoint.path.name]
        with self._lock:
            now = {key: offset for key, offset in before.items() if key in self._known}
        if len(now) != len(before):
            checkpoint.write(now)
            self._saved[checkpoint.path.name] = now

    def _save(self, checkpoint: OffsetCheckpoint, of: Callable[[PartitionLog], int]) -> None:
        """Write a file again if anything changed; a log that is not open keeps what was written."""
        before = self._saved[checkpoint.path.name]
        with self._lock:
            logs = list(self._logs.items())
            now = {key: offset for key, offset in before.items() if key in self._known}
        for key, log in logs:
            if (offset := of(log)) > 0 or key in now:
                now[key] = Offset(offset)
        if now != before:
            checkpoint.write(now)
            self._saved[checkpoint.path.name] = now

    def maintain(self, *, producer_expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        """Apply retention, delayed deletion and expiry, and write checkpoints: a broker does it
        every few minutes.

        Logs that were not used since the start are opened for it, one after the other.
        """
        for partition in self.partitions:
            try:
                log = self.get(partition)
                log.apply_retention()
                log.remove_deleted()
                log.expire_producers(producer_expiration_ms)
                if len(log.segments) > 1 and log.recovery_point < log.segments[-1].base_offset:
                    log.flush()
            except (InvalidArgument, LogClosed):
                continue  # deleted meanwhile
        self.remove_deleted()
        self.checkpoint()

    def sync_due(self) -> int:
        """Sync the logs whose flush.ms or flush.messages is due; return how many there were."""
        due = [log for log in self.open_logs() if log.sync_due()]
        for log in due:
            log.sync()
        return len(due)

    def open_logs(self) -> list[PartitionLog]:
        """Return the logs that have been used since the start."""
        with self._lock:
            return list(self._logs.values())

    def _flush_later(self, partition: TopicPartition) -> None:
        log = self._logs.get(partition)
        if self._flusher is not None and log is not None:
            self._flusher.submit(_flush_quietly, log)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush all logs and mark the directory clean, so that the next start has nothing to do.

        An offline directory is only let go of: the next start recovers it.
        """
        try:
            if self._flusher is not None:
                self._flusher.shutdown()
            if self._storage.failure is None:
                self._close_logs()
                self.checkpoint()
                with self._storage.io(f"close {self.path}"):
                    marker = self.path / CLEAN_SHUTDOWN_NAME
                    self._storage.filesystem.write_atomically(marker, _CLEAN_SHUTDOWN)
        finally:
            self._let_go()

    def _close_logs(self) -> None:
        # Closing is waiting for the disk, which takes many at once.
        _for_each(PartitionLog.close, self.open_logs(), 8, "log-close")

    def _let_go(self) -> None:
        if self._flusher is not None:
            self._flusher.shutdown(cancel_futures=True)
        for log in self.open_logs():
            log.abandon()
        with self._lock:
            self._logs.clear()
        self._storage.files.forget_tree(self.path)
        self._directory_lock.release()


def _for_each(
    do: Callable[[_Item], object], items: Sequence[_Item], threads: int, name: str
) -> None:
    """Call `do` with the items, side by side. The first error is raised when all are done."""
    threads = min(threads, len(items))
    if threads <= 1:
        for item in items:
            do(item)
        return
    with ThreadPoolExecutor(threads, name) as pool:
        for _ in pool.map(do, items):
            pass


def _new_cluster_id() -> str:
    """Return a random UUID in the 22 characters that Kafka writes one with."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


def _partition_of(name: str) -> TopicPartition | None:
    try:
        partition = TopicPartition.parse(name)
    except ValueError:
        return None
    if partition.topic == _KRAFT_TOPIC or topic_name_problem(partition.topic):
        return None
    return partition


def _flush_quietly(log: PartitionLog) -> None:
    """Flush in the background. A failing disk has taken the directory offline and logged that."""
    try:
        log.flush()
    except HeadraceError as error:
        _log.warning("background_flush_failed", partition=str(log.partition), reason=str(error))
