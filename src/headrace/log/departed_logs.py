"""Directories of logs that are no longer served: renamed at once, removed later or kept."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import uuid4

import structlog

from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.log.storage import Storage
from headrace.model.error import CorruptLog, DiskFull
from headrace.model.ids import TopicId, TopicPartition, topic_name_problem

_log = structlog.get_logger(__name__)

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
_NAME_MAX = 255
# The Raft log of an Apache Kafka controller that shares the directory: not ours to open.
_KRAFT_TOPIC = "__cluster_metadata"


class DepartedLogs:
    """The directories whose names end in `-delete` or `-stray`, below one log directory.

    Names (Kafka's): `<topic>-<partition>.<32 hexadecimal digits>-delete`, or `-stray`; the topic is
    cut so that the name has at most 255 characters. No log is ever opened under such a name.

    A log of a topic that was deleted becomes `-delete`, and is removed after a delay. A log that no
    topic of the cluster accounts for becomes `-stray`, and only a person removes it: the cluster's
    state may be the one that is wrong.

    Crash: a `-delete` that is found at the start is removed at once. On a full disk, the rest of
    the start needs that room.

    Threads: any.
    """

    def __init__(
        self, storage: Storage, path: Path, on_renamed: Callable[[TopicPartition], None]
    ) -> None:
        """`on_renamed` hears that nothing of a partition lies under its own name any more, from
        the thread that renamed it."""
        self._storage = storage
        self._path = path
        self._on_renamed = on_renamed
        self._lock = Lock()
        self._deleted: list[tuple[int, Path]] = []
        # What logs have left that moved to another directory, not renamed yet, with their delays.
        self._left: dict[TopicPartition, int] = {}
        self._renaming = Lock()

    def find(self, names: list[str]) -> None:
        """Take over what an earlier process left among the names in the directory."""
        now_ms = self._storage.clock.monotonic_ms()
        for name in names:
            if name.endswith(DELETE_SUFFIX):
                self._deleted.append((now_ms, self._path / name))
        strays = sum(name.endswith(STRAY_SUFFIX) for name in names)
        if strays:
            _log.warning(
                "stray_logs_found",
                path=str(self._path),
                count=strays,
                advice="remove the directories that end in -stray once nothing in them is missed",
            )

    def rename(self, partition: TopicPartition, delay_ms: int | None) -> None:
        """Rename the directory of a log; durable once the caller has synced the log directory.

        Args:
            delay_ms: the first `remove_due` after this removes it; None keeps it, as a stray.
        """
        suffix = STRAY_SUFFIX if delay_ms is None else DELETE_SUFFIX
        renamed = self._path / other_name(partition, suffix)
        source = self._path / str(partition)
        self._storage.files.forget_directory(source)
        self._storage.filesystem.replace(source, renamed)
        self._on_renamed(partition)
        if delay_ms is not None:
            with self._lock:
                self._deleted.append((self._storage.clock.monotonic_ms() + delay_ms, renamed))

    def leave(self, partition: TopicPartition, delay_ms: int) -> None:
        """Rename what is left of a log that goes on in another directory, durably.

        Raises:
            DiskFull: there is no room for the name; the next `remove_due` tries again.
        """
        with self._lock:
            self._left[partition] = delay_ms
        with self._storage.io(f"delete what {partition} has left"):
            self._rename_left(partition)

    def _rename_left(self, partition: TopicPartition) -> None:
        """Rename it, unless another thread has: a new log may lie there then."""
        with self._renaming:
            delay_ms = self._left.get(partition)
            if delay_ms is not None:
                self.rename(partition, delay_ms)
                with self._lock:
                    del self._left[partition]
                self._storage.filesystem.sync_directory(self._path)

    def clear(self, partition: TopicPartition) -> None:
        """Set aside, durably, whatever lies where a copy of a log gets its name next."""
        with self._storage.io(f"make way for {partition}"):
            self._rename_left(partition)
            if self._storage.filesystem.exists(self._path / str(partition)):
                _log.warning("stray_log", partition=str(partition), path=str(self._path))
                self.rename(partition, None)
                self._storage.filesystem.sync_directory(self._path)

    def make_way(self, partition: TopicPartition, topic_id: TopicId | None) -> bool:
        """Set aside what lies where a log is to be created, unless it is of this topic and empty.

        Returns:
            whether something is left there: creating the log stopped half-way before.
        """
        path = self._path / str(partition)
        self._rename_left(partition)
        if not self._storage.filesystem.exists(path):
            return False
        if self._is_unused(path, topic_id):
            return True
        _log.warning("stray_log", partition=str(partition), path=str(self._path))
        self.rename(partition, None)
        return False

    def _is_unused(self, path: Path, topic_id: TopicId | None) -> bool:
        filesystem = self._storage.filesystem
        try:
            metadata = PartitionMetadataFile.read(filesystem, path)
        except CorruptLog:
            return False
        if metadata is not None and metadata.topic_id != topic_id:
            return False
        names = filesystem.list(path)
        return not any(name.endswith(".log") and filesystem.size(path / name) for name in names)

    def remove_due(self) -> int:
        """Remove the directories whose delay is over, and return how many they were."""
        with self._lock:
            left = list(self._left)
        for partition in left:
            with suppress(DiskFull), self._storage.io(f"delete what {partition} has left"):
                self._rename_left(partition)
        now_ms = self._storage.clock.monotonic_ms()
        with self._lock:
            due = [path for due_ms, path in self._deleted if due_ms <= now_ms]
            self._deleted = [item for item in self._deleted if item[0] > now_ms]
        for path in due:
            with self._storage.io(f"remove {path.name}"):
                self._storage.filesystem.remove_tree(path)
        return len(due)


def other_name(partition: TopicPartition, suffix: str) -> str:
    """Return a new name for a directory of this partition that is not, or not yet, served."""
    tail = f"-{partition.partition}.{uuid4().hex}{suffix}"
    return partition.topic[: _NAME_MAX - len(tail)] + tail


def partition_of(name: str) -> TopicPartition | None:
    """Return of which partition a directory is, by its name; None if it is no log to serve."""
    try:
        partition = TopicPartition.parse(name)
    except ValueError:
        return None
    if partition.topic == _KRAFT_TOPIC or topic_name_problem(partition.topic):
        return None
    return partition
