"""The three offset checkpoints of a log directory."""

from collections.abc import Collection
from pathlib import Path

from headrace.log.filesystem import FileSystem
from headrace.log.offset_checkpoint import LOG_START_NAME, RECOVERY_POINT_NAME, REPLICATION_NAME
from headrace.log.saved_offsets import SavedOffsets
from headrace.model.ids import TopicPartition


class DirectoryOffsets:
    """Recovery points, log starts and high watermarks, as their files hold them.

    Threads: one at a time; `LogDirectory` holds its lock for it.

    Attributes:
        arriving: copies of logs that are about to be served here (`put`); their entries stay.
    """

    def __init__(self, filesystem: FileSystem, path: Path) -> None:
        self.arriving: set[TopicPartition] = set()
        self.recovery_points = SavedOffsets(filesystem, path / RECOVERY_POINT_NAME)
        self.log_starts = SavedOffsets(filesystem, path / LOG_START_NAME)
        self.high_watermarks = SavedOffsets(filesystem, path / REPLICATION_NAME)

    def read(self, known: Collection[TopicPartition]) -> None:
        """Read the files, without the entries of partitions that are gone."""
        for saved in (self.recovery_points, self.log_starts, self.high_watermarks):
            saved.read(known)

    def forget(self, partition: TopicPartition) -> None:
        """Drop the entries of a partition before another of the same name is created, or because
        it does not arrive."""
        self.arriving.discard(partition)
        for saved in (self.recovery_points, self.log_starts, self.high_watermarks):
            saved.forget(partition)

    def put(
        self, partition: TopicPartition, *, log_start: int, recovery_point: int, high_watermark: int
    ) -> None:
        """Write down the offsets of a partition that arrives, durable on return."""
        self.arriving.add(partition)
        self.log_starts.put(partition, log_start)
        self.recovery_points.put(partition, recovery_point)
        self.high_watermarks.put(partition, high_watermark)
