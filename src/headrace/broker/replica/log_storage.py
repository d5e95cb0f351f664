"""All log directories of a broker: which of them has a partition's log, and where a new one goes.

Making and deleting logs waits for the disk: call those in a thread.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import structlog

from headrace.cluster.topic import TopicRecord
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId, TopicPartition

log = structlog.get_logger(__name__)


class LogStorage:
    """The directories, in the order in which they were configured.

    Attributes:
        uncompacted: holds compaction off a partition that is taken away; the server puts its worker
            here.
    """

    def __init__(self, node_id: BrokerId) -> None:
        self.directories: list[LogDirectory] = []
        self.uncompacted: Callable[[TopicPartition], AbstractContextManager[None]] = lambda _: (
            nullcontext()
        )
        self._node_id = node_id

    @property
    def offline(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.offline is not None]

    def directory_of(self, name: TopicPartition) -> LogDirectory | None:
        for directory in self.directories:
            if name in directory:
                return directory
        return None

    def log_of(self, name: TopicPartition) -> PartitionLog | None:
        """None when its directory is offline, or when there is none."""
        directory = self.directory_of(name)
        if directory is None:
            log.error("a partition has no log", partition=str(name))
            return None
        try:
            return directory.get(name)
        except StorageError as error:
            log.error("a partition is offline", partition=str(name), reason=str(error))
            return None

    def lacks(self, record: TopicRecord) -> bool:
        """Whether a log of this topic that belongs here is missing."""
        return any(
            self.directory_of(TopicPartition(record.name, index)) is None
            for index, partition in enumerate(record.partitions)
            if self._node_id in partition.replicas
        )

    def make(self, record: TopicRecord) -> None:
        """Create the logs of a topic that are not there yet. One of a deleted topic of the same
        name goes first."""
        for index, partition in enumerate(record.partitions):
            if self._node_id not in partition.replicas:
                continue
            name = TopicPartition(record.name, index)
            directory = self.directory_of(name)
            if directory is not None and directory.topic_id(name) not in (record.topic_id, None):
                directory.delete(name)
                directory = None
            if directory is None:
                self._emptiest().create(name, record.topic_id)

    def delete(self, names: Iterable[TopicPartition]) -> None:
        for name in names:
            directory = self.directory_of(name)
            if directory is not None:
                with self.uncompacted(name):
                    directory.delete(name)

    def strays(self, topics: Mapping[str, TopicRecord]) -> list[TopicPartition]:
        """Logs that are none of these topics' and of this broker."""
        return [
            name
            for directory in self.directories
            for name in directory.partitions
            if not self._belongs(name, topics.get(name.topic))
        ]

    def _belongs(self, name: TopicPartition, topic: TopicRecord | None) -> bool:
        if topic is None or name.partition >= len(topic.partitions):
            return False
        return self._node_id in topic.partitions[name.partition].replicas

    def _emptiest(self) -> LogDirectory:
        online = [directory for directory in self.directories if directory.offline is None]
        if not online:
            raise StorageError("every log directory is offline: nothing can be created")
        return min(online, key=lambda directory: len(directory.partitions))
