"""All log directories of a broker: which of them has a partition's log, and where a new one goes.

Making and deleting logs waits for the disk: call those in a thread.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import structlog

from headrace.cluster.topic import TopicRecord
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId, TopicPartition

log = structlog.get_logger(__name__)


class Compaction(Protocol):
    """The background compaction of the same directories."""

    def add(self, directory: LogDirectory) -> None:
        """Compact the logs of this directory, too."""

    def deleting(self, partition: TopicPartition) -> AbstractContextManager[None]:
        """Keep compaction off a partition while it is deleted, and forget it afterwards."""


class LogStorage:
    """The log directories of a broker.

    Attributes:
        directories: those that are open, in the order of `log.dirs`; none before `add`.
    """

    def __init__(self, node_id: BrokerId, compaction: Compaction) -> None:
        self.directories: list[LogDirectory] = []
        self._node_id = node_id
        self._compaction = compaction

    def add(self, directory: LogDirectory) -> None:
        """Use a directory that has been opened."""
        self.directories.append(directory)
        self._compaction.add(directory)

    @property
    def offline(self) -> list[LogDirectory]:
        """The directories that an I/O error took offline."""
        return [each for each in self.directories if each.offline is not None]

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.offline is None]

    def problems(self) -> list[str]:
        """Return one sentence per directory that an administrator must look at."""
        return [
            f"log directory {directory.path} is offline: {directory.offline}"
            for directory in self.offline
        ]

    def directory_of(self, name: TopicPartition) -> LogDirectory | None:
        for directory in self.directories:
            if name in directory:
                return directory
        return None

    def log_of(self, name: TopicPartition) -> PartitionLog | None:
        """Return a partition's log; None when its directory is offline, or when there is none."""
        directory = self.directory_of(name)
        if directory is None:
            log.error("partition_without_log", partition=str(name))
            return None
        try:
            return directory.get(name)
        except StorageError as error:
            log.error("partition_offline", partition=str(name), reason=str(error))
            return None

    def lacks(self, record: TopicRecord) -> bool:
        """Return whether a log of this topic that belongs here is missing."""
        return any(
            self.directory_of(TopicPartition(record.name, index)) is None
            for index, partition in enumerate(record.partitions)
            if self._node_id in partition.replicas
        )

    def make(self, record: TopicRecord) -> None:
        """Create the logs of a topic that are missing; first delete one that belongs to a deleted
        topic of the same name."""
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
                with self._compaction.deleting(name):
                    directory.delete(name)

    def strays(self, topics: Mapping[str, TopicRecord]) -> list[TopicPartition]:
        """Return the logs of partitions that this broker has no replica of, or that are gone."""
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
        online = self.online
        if not online:
            raise StorageError("every log directory is offline: nothing can be created")
        return min(online, key=lambda directory: len(directory.partitions))
