"""The only way from the log to the disk, so that a test can replace it.

Everything in `headrace.log` that touches a file goes through a `FileSystem` it was handed. `Disk`
is the real one; the crash tests hand in one that drops unsynced bytes, tears writes, fails calls.

What is durable, and when (the rules a replacement must model):

Rule 1: bytes and length of a file are durable after `File.sync`, not before.
Rule 2: a name (created, renamed, removed) is durable after `sync_directory` of its directory.
Rule 3: `write_atomically` leaves the old content or the new, durable on return, and never a mix.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
OnSync: TypeAlias = Callable[[float], None]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What a call fails with that needs more room than the disk, or its owner's quota, has."""

# Linux takes at most IOV_MAX buffers in one call.
_MAX_BUFFERS = 1024


class File(Protocol):
    """A file open for reading and, unless opened read-only, writing at any position.

    It can be referred to weakly: a segment holds such a reference between two looks into the pool.
    """

    @property
    def path(self) -> Path: ...

    def fileno(self) -> int:
        """Return the descriptor, for sendfile and for the pages of an mmap."""

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        """Write all of the buffers one after the other, and return how many bytes that was."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when bytes and length are on disk (fdatasync)."""

    def close(self) -> None: ...


class FailedSync(OSError):
    """A sync failed. Never try it again: the kernel may have dropped the pages, and would report
    success the second time."""


def has_no_room(error: BaseException | None) -> bool:
    """Return whether a call failed for want of room, and may be repeated when there is some."""
    return (
        isinstance(error, OSError) and error.errno in NO_ROOM and not isinstance(error, FailedSync)
    )


def sync_file(file: File) -> None:
    """Return when bytes and length of a file that is written in place are on disk.

    Raises:
        FailedSync: whatever the reason; a full disk, too, is no reason to try again.
    """
    try:
        file.sync()
    except OSError as error:
        raise FailedSync(error.errno, error.strerror, str(file.path)) from error


class FileSystem(Protocol):
    """Paths in, `File`s and bytes out. Methods raise `OSError` as the operating system does."""

    def open(
        self, path: Path, *, create: bool = False, read_only: bool = False, private: bool = False
    ) -> File:
        """Open a file. With `private` other users of the machine cannot read it from now on."""

    def read_bytes(self, path: Path) -> bytes: ...

    def write_atomically(self, path: Path, content: bytes, *, private: bool = False) -> None: ...

    def replace(self, source: Path, target: Path) -> None:
        """Rename, over `target` if it exists. Durable after `sync_directory`."""

    def remove(self, path: Path) -> None: ...

    def remove_tree(self, path: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        """Create `path` and its parents; no error when it is there already."""

    def list(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""

    def exists(self, path: Path) -> bool: ...

    def size(self, path: Path) -> int: ...

    def sync_directory(self, path: Path) -> None: ...

    def free_bytes(self, path: Path) -> int: ...

    def modified_ms(self, path: Path) -> int:
        """Return when the file was last written to, by the wall clock."""


class DiskFile:
    """`File` on a descriptor. Reads and writes carry their position, so threads may share it."""

    __slots__ = ("__weakref__", "_fd", "_on_sync", "path")

    def __init__(self, fd: int, path: Path, on_sync: OnSync | None = None) -> None:
        self._fd = fd
        self.path = path
        self._on_sync = on_sync

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        if len(buffers) == 1:
            total = len(buffers[0])
            written = os.pwrite(self._fd, buffers[0], position)
        else:
            total = sum(map(len, buffers))
            written = os.pwritev(self._fd, buffers[:_MAX_BUFFERS], position)
        if written == total:
            return total
        return self._finish_write(buffers, position, written, total)

    def _finish_write(
        self, buffers: Sequence[Bytes], position: int, written: int, total: int
    ) -> int:
        """Go on with a write that a signal or a nearly full disk has cut short."""
        rest: list[memoryview] = []
        skip = written
        for buffer in buffers:
            view = memoryview(buffer).cast("B")
            if skip >= len(view):
                skip -= len(view)
                continue
            rest.append(view[skip:])
            skip = 0
        while rest:
            count = os.pwritev(self._fd, rest[:_MAX_BUFFERS], position + written)
            written += count
            while rest and count >= len(rest[0]):
                count -= len(rest.pop(0))
            if rest and count:
                rest[0] = rest[0][count:]
        return total

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        _timed(os.fdatasync, self._fd, self._on_sync)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        # The last holder let go: `FilePool` relies on it to keep a file that is being sent open.
        self.close()

    def __repr__(self) -> str:
        return f"<DiskFile {self.path}>"


def _open(path: Path, flags: int, private: bool) -> int:
    fd = os.open(path, flags, 0o600 if private else 0o644)
    if private:
        # A file of an earlier version may be open to others. Some file systems know no modes.
        with suppress(PermissionError):
            os.fchmod(fd, 0o600)
    return fd


class Disk:
    """`FileSystem` of the machine we run on.

    Args:
        on_sync: is given the seconds of each sync of a file or a directory, on the thread that
            waited for it.
    """

    def __init__(self, on_sync: OnSync | None = None) -> None:
        self._on_sync = on_sync

    def open(
        self, path: Path, *, create: bool = False, read_only: bool = False, private: bool = False
    ) -> DiskFile:
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if create:
            flags |= os.O_CREAT
        return DiskFile(_open(path, flags, private), path, self._on_sync)

    def read_bytes(self, path: Path) -> bytes:
        return path.read_bytes()

    def write_atomically(self, path: Path, content: bytes, *, private: bool = False) -> None:
        scratch = path.with_name(path.name + ".tmp")
        flags = os.O_CLOEXEC | os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        fd = _open(scratch, flags, private)
        file = DiskFile(fd, scratch, self._on_sync)
        try:
            if content:
                file.pwritev([content], 0)
            file.sync()
        finally:
            file.close()
        self.replace(scratch, path)
        self.sync_directory(path.parent)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def list(self, path: Path) -> list[str]:
        return sorted(entry.name for entry in os.scandir(path))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _timed(os.fsync, fd, self._on_sync)
        finally:
            os.close(fd)

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def free_bytes(self, path: Path) -> int:
        return shutil.disk_usage(path).free


def _timed(sync: Callable[[int], None], fd: int, on_sync: OnSync | None) -> None:
    began = time.perf_counter()
    sync(fd)
    if on_sync is not None:
        on_sync(time.perf_counter() - began)
