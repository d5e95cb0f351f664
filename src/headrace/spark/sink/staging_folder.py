"""The staging folder of a batch write: large task outputs wait in files for the driver.

A folder saves the brokers a second copy of every row, but only tasks on the driver's machine can
use it. The driver makes it in a local directory of its Spark application, beside a random token
that all writes of the application share. A task of the driver's user that finds this token writes
to the folder; any other one uses the staging topic.

Rule 1: only batches that a task output names count, as in the staging topic.
Rule 2: the folder belongs to one write. The driver deletes it after the commit or the abort; what
a killed driver leaves lies in Spark's own directory. A task that finds the token but no folder any
more was overtaken by the abort: it fails, because no one would delete a staging topic any more.
Rule 3: an eighth of the disk stays free. A task that would use it continues in the staging topic.
"""

import errno
import mmap
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch

_LOCAL_DIRECTORIES: Final = "SPARK_LOCAL_DIRS"
_TOKEN: Final = "headrace-token"  # noqa: S105, the name of a file
_FREE_PART: Final = 8
_AGAIN: Final = "nothing was committed; run the write again"


class StagingLost(HeadraceError):
    """A file that a task has staged is not there, or not whole."""


class WriteEnded(HeadraceError):
    """The driver has committed or aborted the write that a task still works for."""


class StagedFile(NamedTuple):
    """Batches in a file, one behind the other: the target and the size of each."""

    path: str
    batches: list[tuple[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """A folder of the driver's machine. It pickles: Spark sends it to every task."""

    path: str
    token: str

    @classmethod
    def create(cls) -> "StagingFolder | None":
        """Create a folder that only this user may enter; None where Spark names no directory."""
        for parent in os.environ.get(_LOCAL_DIRECTORIES, "").split(","):
            with suppress(OSError):
                if parent:
                    token = _shared_token(Path(parent))
                    return cls(tempfile.mkdtemp(prefix="headrace-sink-", dir=parent), token)
        return None

    def file(self) -> "StagingFile | None":
        """Return a new file; None on another machine than the driver's, and for another user.

        Raises:
            WriteEnded: the folder is deleted.
        """
        try:
            found = (Path(self.path).parent / _TOKEN).read_bytes()
        except OSError:
            return None
        if not secrets.compare_digest(found, self.token.encode()):
            return None
        try:
            # Root may enter the folder of any driver, which could not open root's file.
            if Path(self.path).stat().st_uid != os.geteuid():
                return None
            return StagingFile(*tempfile.mkstemp(dir=self.path))
        except FileNotFoundError as error:
            raise WriteEnded("the write that this task belongs to has ended") from error
        except OSError:
            return None

    def delete(self) -> None:
        """Delete the folder, if it is there."""
        shutil.rmtree(self.path, ignore_errors=True)


def _shared_token(directory: Path) -> str:
    """Return the token of a directory, which the first write makes.

    Raises:
        OSError: the directory is not there, or cannot be written to.
    """
    path = directory / _TOKEN
    if not path.exists():
        descriptor, new = tempfile.mkstemp(dir=directory)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex())
            with suppress(FileExistsError):  # another write was faster
                os.link(new, path)
        finally:
            Path(new).unlink()
    return path.read_text()


class StagingFile:
    """The file of one task."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._path = path
        self._batches: list[tuple[TopicPartition, int]] = []

    def write(self, batches: Sequence[tuple[TopicPartition, memoryview]]) -> None:
        """Append batches: all of them, or none that counts.

        Raises:
            OSError: the disk is too full, or broken.
        """
        size = sum(len(data) for _, data in batches)
        disk = os.fstatvfs(self._file.fileno())
        if disk.f_bavail - size // disk.f_frsize < disk.f_blocks // _FREE_PART:
            raise OSError(errno.ENOSPC, "too little of the disk would stay free")
        for _, data in batches:
            left = data
            while left:
                left = left[self._file.write(left) or 0 :]
        self._batches += [(target, len(data)) for target, data in batches]

    @property
    def contents(self) -> StagedFile:
        """What is in the file."""
        return StagedFile(self._path, self._batches)

    def close(self) -> None:
        self._file.close()


def read_staged(staged: StagedFile) -> Iterator[tuple[TopicPartition, Batch]]:
    """Yield the batches of a file, each with its target. Changes to a batch are not written back.

    Raises:
        StagingLost: the file is gone, or shorter than its batches.
        CorruptBatch: a batch is damaged.
    """
    size = sum(each for _, each in staged.batches)
    if not size:
        return
    try:
        with open(staged.path, "rb") as file:  # noqa: PTH123, the path may be long gone
            if os.fstat(file.fileno()).st_size < size:
                raise StagingLost(
                    f"the file {staged.path} with rows of a task is not whole: {_AGAIN}"
                )
            whole = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise StagingLost(f"the rows of a task cannot be read again ({error}): {_AGAIN}") from error
    at = 0
    for target, length in staged.batches:
        batch = Batch(whole[at : at + length])
        batch.validate()
        at += length
        yield target, batch
