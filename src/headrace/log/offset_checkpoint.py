"""The files that hold one offset per partition of a log directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.log.checkpoint import corrupt_line, read_checkpoint, to_number, write_checkpoint
from headrace.log.filesystem import FileSystem
from headrace.model.ids import TopicPartition, topic_name_problem
from headrace.model.offset import Offset

RECOVERY_POINT_NAME: Final = "recovery-point-offset-checkpoint"
LOG_START_NAME: Final = "log-start-offset-checkpoint"
REPLICATION_NAME: Final = "replication-offset-checkpoint"
CLEANER_NAME: Final = "cleaner-offset-checkpoint"


class OffsetCheckpoint:
    """One offset for each partition of a log directory (lines of `<topic> <partition> <offset>`).

    The recovery points, the log start offsets, the high watermarks and the cleaner's progress are
    four such files. An entry for a partition that is gone is harmless; one that is missing means
    0. Each is written after what it promises has happened (a recovery point after the sync), so a
    crash between the two leaves a value that is too low and costs time, not records.

    Threads: `write` from one thread at a time.
    """

    def __init__(self, filesystem: FileSystem, path: Path) -> None:
        self.path = path
        self._filesystem = filesystem

    def read(self) -> dict[TopicPartition, Offset]:
        """Return what was written last; empty when there is no file.

        Raises:
            CorruptLog: naming the line.
        """
        offsets: dict[TopicPartition, Offset] = {}
        for number, words in read_checkpoint(self._filesystem, self.path, fields=3):
            topic, partition, offset = words
            if problem := topic_name_problem(topic):
                raise corrupt_line(self.path, number, problem)
            key = TopicPartition(topic, to_number(self.path, number, partition))
            offsets[key] = Offset(to_number(self.path, number, offset))
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file; durable on return."""
        write_checkpoint(
            self._filesystem,
            self.path,
            (f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()),
        )
