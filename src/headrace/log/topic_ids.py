"""Of which topic each log of a directory is."""

from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from threading import Lock

from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.log.storage import Storage
from headrace.model.ids import TopicId, TopicPartition


class TopicIds:
    """The topic ids in the `partition.metadata` files below one log directory, read once each.

    Threads: any.

    Args:
        known: the logs that are in the directory; `lock` is held where that may change.
    """

    def __init__(
        self, storage: Storage, path: Path, known: Container[TopicPartition], lock: Lock
    ) -> None:
        self._storage = storage
        self._path = path
        self._known = known
        self._lock = lock
        self._ids: dict[TopicPartition, TopicId | None] = {}
        # Those that a full disk did not take.
        self._owed: dict[TopicPartition, TopicId] = {}
        # One writes at a time: two that replace the same file would take it from each other.
        self._writing = Lock()

    def of(self, partition: TopicPartition) -> TopicId | None:
        """Return the id of the topic a log belongs to, None when none was written."""
        with suppress(KeyError):  # `in` first would race with a log that leaves
            return self._ids[partition]
        with self._storage.io(f"read the topic id of {partition}"):
            metadata = PartitionMetadataFile.read(
                self._storage.filesystem, self._path / str(partition)
            )
        topic_id = None if metadata is None else metadata.topic_id
        with self._lock:
            if partition in self._known:
                self._ids[partition] = topic_id
        return topic_id

    def note(self, partition: TopicPartition, topic_id: TopicId | None) -> None:
        """Remember the id that a new log was made with."""
        self._ids[partition] = topic_id

    def write(self, partition: TopicPartition, topic_id: TopicId) -> None:
        """Write down, durably, of which topic a log is that was written without. It is known from
        now on, even if the disk is full: then it is owed."""
        self._ids[partition] = self._owed[partition] = topic_id
        with self._writing, self._storage.io(f"write the topic id of {partition}"):
            PartitionMetadataFile(topic_id=topic_id).write(
                self._storage.filesystem, self._path / str(partition)
            )
        self._owed.pop(partition, None)

    def owed(self) -> list[tuple[TopicPartition, TopicId]]:
        """Return the ids that must still be written."""
        return list(self._owed.items())

    def forget(self, partition: TopicPartition) -> None:
        """Forget a log that has left the directory."""
        self._ids.pop(partition, None)
        self._owed.pop(partition, None)
