"""`.lock`: one process per log directory."""

import fcntl
import io
from pathlib import Path

from headrace.log.filesystem import File, FileSystem
from headrace.model.error import LogDirectoryLocked, StorageError

LOCK_NAME = ".lock"


class DirectoryLock:
    """Held from `acquire` to `release`; the kernel lets go of it when the process dies.

    Two locks on one file: `flock` keeps out another `LogDirectory`, also of this process, and the
    POSIX lock keeps out Apache Kafka, which takes that kind on the same file.
    """

    def __init__(self, file: File) -> None:
        self._file = file

    @classmethod
    def acquire(
        cls, filesystem: FileSystem, directory: Path, *, make: bool = False
    ) -> "DirectoryLock":
        """Lock the directory for this process; `make` it first, durably, if it is not there.

        Raises:
            LogDirectoryLocked: another process has it.
        """
        try:
            if make:
                paths = (directory, *directory.parents)
                missing = [each for each in paths if not filesystem.exists(each)]
                filesystem.make_directory(directory)
                for each in missing:
                    filesystem.sync_directory(each.parent)
            file = filesystem.open(directory / LOCK_NAME, create=True)
        except OSError as error:
            raise StorageError(
                f"{directory} cannot be used for logs: {error.strerror or error}"
            ) from error
        try:
            descriptor = file.fileno()
        except io.UnsupportedOperation:
            return cls(file)  # a disk in memory has no other processes
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise LogDirectoryLocked(
                f"{directory} is in use by another process: stop that one, or choose another "
                "directory"
            ) from error
        return cls(file)

    def release(self) -> None:
        self._file.close()
