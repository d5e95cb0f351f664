"""One offset per partition of a log directory, as its checkpoint file holds it."""

from collections.abc import Collection, Iterable
from pathlib import Path

from headrace.log.filesystem import FileSystem, has_no_room
from headrace.log.offset_checkpoint import OffsetCheckpoint
from headrace.model.ids import TopicPartition
from headrace.model.offset import Offset


class SavedOffsets:
    """What a checkpoint file holds, kept in memory so that it is written only when it changes.

    Threads: one at a time; `LogDirectory` holds its lock for it.
    """

    def __init__(self, filesystem: FileSystem, path: Path) -> None:
        self._file = OffsetCheckpoint(filesystem, path)
        self._saved: dict[TopicPartition, Offset] = {}
        self._unwritten = False

    def read(self, known: Collection[TopicPartition]) -> None:
        """Read the file, without the entries of partitions that are gone: a new partition of the
        same name must not get them. On a full disk the file keeps them until the next `save`.
        """
        stored = self._file.read()
        self._saved = {key: offset for key, offset in stored.items() if key in known}
        if self._saved != stored:
            self._unwritten = True
            try:
                self._file.write(self._saved)
            except OSError as error:
                if not has_no_room(error):
                    raise
            else:
                self._unwritten = False

    def get(self, partition: TopicPartition) -> Offset:
        """Return what the file holds for a partition, 0 for nothing."""
        return self._saved.get(partition, Offset(0))

    def save(
        self, known: Collection[TopicPartition], current: Iterable[tuple[TopicPartition, int]]
    ) -> None:
        """Write the file again if anything changed; a log that is not open keeps its entry."""
        now = {key: offset for key, offset in self._saved.items() if key in known}
        for key, offset in current:
            if offset > 0 or key in now:
                now[key] = Offset(offset)
        if now != self._saved or self._unwritten:
            # Even if the disk is full: a new log of a deleted name must not get its offsets.
            self._saved, self._unwritten = now, True
            self._file.write(now)
            self._unwritten = False

    def put(self, partition: TopicPartition, offset: int) -> None:
        """Write down the offset of one partition more."""
        self.save(self._saved.keys() | {partition}, [(partition, offset)])

    def forget(self, partition: TopicPartition) -> None:
        """Drop the entry of a partition before another of the same name is created, from the file
        as well.

        There is one if the file could not be written when the partition was deleted, and in the one
        of high watermarks, which a deletion does not write: the new log would begin, after a
        crash, with the high watermark of the one before.
        """
        if partition in self._saved or self._unwritten:
            self.save(self._saved.keys() - {partition}, ())
