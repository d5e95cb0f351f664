"""Of which topic each log of a directory is."""

from pathlib import Path

from headrace.log.partition.partition_metadata_file import PartitionMetadataFile
from headrace.log.storage import Storage
from headrace.model.ids import TopicId, TopicPartition


class StoredTopicIds(dict[TopicPartition, TopicId | None]):
    """The topic ids that are known; None for a log that was written without.

    Threads: any.
    """

    def __init__(self, storage: Storage, path: Path) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        # Those that a full disk has not taken.
        self._owed: dict[TopicPartition, TopicId] = {}

    def read(self, partition: TopicPartition) -> TopicId | None:
        """Read the id that the directory of a partition holds."""
        with self._storage.io(f"read the topic id of {partition}"):
            metadata = PartitionMetadataFile.read(
                self._storage.filesystem, self._path / str(partition)
            )
        return None if metadata is None else metadata.topic_id

    def write(self, partition: TopicPartition, topic_id: TopicId) -> None:
        """Write an id down, durably; it is known and owed when the disk is full."""
        self[partition] = self._owed[partition] = topic_id
        with self._storage.io(f"write the topic id of {partition}"):
            PartitionMetadataFile(topic_id=topic_id).write(
                self._storage.filesystem, self._path / str(partition)
            )
        self._owed.pop(partition, None)

    def owed(self) -> list[tuple[TopicPartition, TopicId]]:
        """Return what is still to be written."""
        return list(self._owed.items())

    def forget(self, partition: TopicPartition) -> None:
        self.pop(partition, None)
        self._owed.pop(partition, None)
