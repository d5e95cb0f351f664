"""Directories of logs that are no longer served: renamed at once, removed later or kept."""

from pathlib import Path
from threading import Lock
from typing import Final
from uuid import uuid4

import structlog

from headrace.log.storage import Storage
from headrace.model.ids import TopicPartition, topic_name_problem

_log = structlog.get_logger(__name__)

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
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

    Crash: a `-delete` that is found at the start is removed with the next round.

    Threads: any.
    """

    def __init__(self, storage: Storage, path: Path) -> None:
        self._storage = storage
        self._path = path
        self._lock = Lock()
        self._deleted: list[tuple[int, Path]] = []

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

    def rename(self, partition: TopicPartition, suffix: str) -> Path:
        """Rename the directory of a log; durable once the caller has synced the log directory."""
        tail = f"-{partition.partition}.{uuid4().hex}{suffix}"
        renamed = self._path / (partition.topic[: _NAME_MAX - len(tail)] + tail)
        source = self._path / str(partition)
        self._storage.files.forget_directory(source)
        self._storage.filesystem.replace(source, renamed)
        return renamed

    def remove_after(self, delay_ms: int, path: Path) -> None:
        """Remove a `-delete` directory with the first `remove_due` after a delay."""
        with self._lock:
            self._deleted.append((self._storage.clock.monotonic_ms() + delay_ms, path))

    def remove_due(self) -> int:
        """Remove the directories whose delay is over, and return how many they were."""
        now_ms = self._storage.clock.monotonic_ms()
        with self._lock:
            due = [path for due_ms, path in self._deleted if due_ms <= now_ms]
            self._deleted = [item for item in self._deleted if item[0] > now_ms]
        for path in due:
            with self._storage.io(f"remove {path.name}"):
                self._storage.filesystem.remove_tree(path)
        return len(due)


def partition_of(name: str) -> TopicPartition | None:
    """Return of which partition a directory is, by its name; None if it is no log to serve."""
    try:
        partition = TopicPartition.parse(name)
    except ValueError:
        return None
    if partition.topic == _KRAFT_TOPIC or topic_name_problem(partition.topic):
        return None
    return partition
