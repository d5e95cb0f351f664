"""What all logs of one log directory share: the disk, the clock, the open files, and the error
that took the directory offline.
"""

from collections.abc import Callable
from threading import Lock
from types import TracebackType

import structlog

from headrace.log.file_pool import FilePool
from headrace.log.filesystem import FileSystem, has_no_room
from headrace.log.index.index_cache import IndexCache
from headrace.model.clock import Clock
from headrace.model.error import CorruptLog, DiskFull, LogDirectoryOffline, StorageError
from headrace.model.ids import TopicPartition

_log = structlog.get_logger(__name__)


def _nothing() -> None:
    """Stand in for the checkpoint of a log that lives outside a log directory."""


class Storage:
    """One disk, and the first error that it reported.

    Invariant: after the first I/O error, other than a full disk, nothing is written any more. What
    memory says and what the disk holds may differ from that moment on, and only a new recovery can
    tell. So every log of the directory refuses from then on, and says why.

    Attributes:
        save_offsets: writes recovery points and log starts of all logs, durable on return. A log
            calls it where a crash must not find the old ones (truncation, DeleteRecords).
        changes: counts moves of a log start and the failure of the disk, which a reader at the end
            of a log would learn of only by reading again.

    Threads: any.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        clock: Clock,
        *,
        files: FilePool | None = None,
        indexes: IndexCache | None = None,
        save_offsets: Callable[[], None] = _nothing,
    ) -> None:
        self.filesystem = filesystem
        self.clock = clock
        self.files = FilePool(filesystem) if files is None else files
        self.indexes = IndexCache() if indexes is None else indexes
        self.failure: StorageError | None = None
        self.changes = 0
        self.save_offsets = save_offsets
        self._lock = Lock()
        self._truncation_listeners: list[Callable[[TopicPartition, int], None]] = []

    def on_truncation(self, listener: Callable[[TopicPartition, int], None]) -> None:
        """Call `listener` with a partition and its new log end, before any log here is cut. It runs
        while that log's locks are held, and must not ask for one."""
        self._truncation_listeners.append(listener)

    def announce_truncation(self, partition: TopicPartition, end: int) -> None:
        for listener in self._truncation_listeners:
            listener(partition, end)

    def check_online(self) -> None:
        """Refuse to go on after an I/O error.

        Raises:
            LogDirectoryOffline: naming the error that was the first.
        """
        if self.failure is not None:
            raise LogDirectoryOffline(f"the log directory is offline: {self.failure}")

    def fail(self, error: StorageError) -> StorageError:
        """Take everything offline because of `error`; return what to raise.

        Only the first error counts; those that follow from it become `LogDirectoryOffline`.
        """
        with self._lock:
            first = self.failure is None
            if first:
                self.failure = error
                self.changes += 1
        if not first:
            return LogDirectoryOffline(f"the log directory is offline: {self.failure}")
        _log.error("log_directory_offline", reason=str(error))
        return error

    def log_start_moved(self) -> None:
        """Count a log start that has moved."""
        with self._lock:
            self.changes += 1

    def io(self, what: str, *, midway: bool = False) -> "StorageIo":
        """Guard a `with` block: an `OSError` in it becomes a `StorageError` and takes the directory
        offline (`with storage.io("sync clicks-0"):`).

        A full disk does not: it becomes `DiskFull`, and the caller repeats the work later.

        Args:
            midway: a block that stops half-way leaves memory and disk apart, so that a full disk
                takes the directory offline as well.
        """
        return StorageIo(self, what, midway)


class StorageIo:
    """One piece of I/O: what the disk refuses in it takes the directory offline, unless the disk is
    only full."""

    __slots__ = ("_midway", "_storage", "_what")

    def __init__(self, storage: Storage, what: str, midway: bool) -> None:
        self._storage = storage
        self._what = what
        self._midway = midway

    def __enter__(self) -> None:
        self._storage.check_online()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if has_no_room(error) and not self._midway:
            raise DiskFull(
                f"cannot {self._what}: there is no room on the disk: free some space"
            ) from error
        if isinstance(error, OSError):
            raise self._storage.fail(
                StorageError(f"cannot {self._what}: {error.strerror or error}")
            ) from error
        if isinstance(error, CorruptLog):
            self._storage.fail(error)
