"""`.kafka_cleanshutdown`: whether the logs of a directory were closed properly."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog

from headrace.log.filesystem import FileSystem
from headrace.model.ids import TopicPartition

_log = structlog.get_logger(__name__)

CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
_CONTENT = b'{"version":0,"brokerEpoch":-1}'


class CleanMark:
    """The mark in one directory, and the logs that were not closed, which it must not speak for.

    Invariant: where the mark lies, opening any log there needs no recovery. A log that needs it
    and does not get it, because the disk is full, keeps the mark away until a later start.

    Crash: the mark goes before a log is opened, and comes when all are closed.

    Threads: any.
    """

    def __init__(self, filesystem: FileSystem, directory: Path) -> None:
        self._filesystem = filesystem
        self._path = directory / CLEAN_SHUTDOWN_NAME
        self._doubted: set[TopicPartition] = set()

    def take(self, known: Iterable[TopicPartition]) -> bool:
        """Remove the mark, durable when the directory is synced; return whether it was there.
        Without it every log is doubted."""
        if self._filesystem.exists(self._path):
            self._filesystem.remove(self._path)
            return True
        self._doubted.update(known)
        return False

    def doubt(self, partitions: Iterable[TopicPartition]) -> None:
        """Note logs that are let go of without being closed, and stay where they are."""
        self._doubted.update(partitions)

    def trust(self, partition: TopicPartition) -> None:
        """Note that a log was recovered, or that its files lie there no more."""
        self._doubted.discard(partition)

    def speaks_for(self, partition: TopicPartition) -> bool:
        """Return whether a log was closed properly."""
        return partition not in self._doubted

    def write(self) -> None:
        """Mark the directory, durably, unless a log in it is doubted."""
        if self._doubted:
            _log.warning(
                "log_directory_not_clean",
                path=str(self._path.parent),
                reason=f"{len(self._doubted)} logs were not closed properly",
            )
            return
        self._filesystem.write_atomically(self._path, _CONTENT)
