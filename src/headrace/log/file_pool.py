"""The open files of all partitions together, bounded."""

import resource
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from headrace.log.filesystem import File, FileSystem
from headrace.model.error import InvalidArgument

# Half of the process's descriptors: the other half is for the sockets of clients.
_SHARE_OF_LIMIT = 2
# "Unlimited" in a container can mean a billion; Linux's usual hard limit is enough for any broker.
_LIMIT_CEILING = 1_048_576
_SMALLEST_CAPACITY = 16


def default_capacity() -> int:
    """Return half of the soft limit on open files (`ulimit -n`)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > _LIMIT_CEILING:
        soft = _LIMIT_CEILING
    return max(soft // _SHARE_OF_LIMIT, _SMALLEST_CAPACITY)


class FilePool:
    """At most `capacity` files kept open, least recently used closed first.

    Invariant: the pool itself never closes a file. It lets go, and the file closes when its last
    holder does (CPython counts references, `DiskFile` closes when it is collected). So a slice that
    is being sent survives the eviction, the renaming and the deletion of its segment, and the true
    number of open files is at most `capacity` plus those in use at this moment.

    A name is resolved when it is opened: before a path is renamed or removed its owner calls
    `forget`, or a later `get` answers with the file that used to be there.

    Eviction does not lose a write error. The kernel keeps a failed write-back on the inode until
    some `sync` has reported it, also one through a descriptor that was opened after the failure.

    Threads: any may call any method. The lock is not held while a file is opened, so a slow disk
    does not hold up those whose file is there; two threads that miss together open it twice, and
    the second keeps the first's.
    """

    def __init__(self, filesystem: FileSystem, capacity: int | None = None) -> None:
        if capacity is not None and capacity < 1:
            raise InvalidArgument(f"a file pool holds at least 1 file, not {capacity}")
        self.filesystem = filesystem
        self.capacity = default_capacity() if capacity is None else capacity
        self._files: OrderedDict[Path, File] = OrderedDict()
        # The same paths by their directory: deleting a log must not walk the files of all logs.
        self._by_directory: dict[Path, set[Path]] = {}
        self._lock = Lock()
        self._renewals = 0

    def get(self, path: Path, *, create: bool = False) -> File:
        """Return the file at `path`, open for reading and writing.

        Raises:
            FileNotFoundError: it is not there, and `create` was not asked for.
        """
        files = self._files
        with self._lock:
            file = files.get(path)
            if file is not None:
                files.move_to_end(path)
                return file
            renewals = self._renewals
        opened = self.filesystem.open(path, create=create)
        with self._lock:
            if self._renewals != renewals:
                # Something was forgotten meanwhile, perhaps this path: its name may no longer lead
                # to what we hold. Serve it to this caller and let the next one look again.
                return opened
            file = files.setdefault(path, opened)
            files.move_to_end(path)
            self._by_directory.setdefault(path.parent, set()).add(path)
            evicted = self._pop(next(iter(files))) if len(files) > self.capacity else None
        # Closing is a system call: it happens here, after the lock.
        del evicted
        return file

    def _pop(self, path: Path) -> File | None:
        file = self._files.pop(path, None)
        if file is not None:
            beside = self._by_directory[path.parent]
            beside.discard(path)
            if not beside:
                del self._by_directory[path.parent]
        return file

    def forget(self, path: Path) -> None:
        """Let go of `path`; call it before the name is renamed, replaced or removed."""
        with self._lock:
            self._renewals += 1
            file = self._pop(path)
        del file

    def forget_directory(self, directory: Path) -> None:
        """Let go of the files that lie in `directory` itself; costs no more than those."""
        with self._lock:
            self._renewals += 1
            files = [self._pop(path) for path in tuple(self._by_directory.get(directory, ()))]
        del files

    def forget_tree(self, directory: Path) -> None:
        """Let go of every file below `directory`; walks the directories of all open files."""
        with self._lock:
            self._renewals += 1
            below = [
                path
                for each, paths in self._by_directory.items()
                if each == directory or directory in each.parents
                for path in paths
            ]
            files = [self._pop(path) for path in below]
        del files

    def close(self) -> None:
        """Let go of everything. The pool can be used again afterwards."""
        with self._lock:
            self._renewals += 1
            files, self._files = self._files, OrderedDict()
            self._by_directory.clear()
        files.clear()

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, path: Path) -> bool:
        return path in self._files


def rename_file(files: FilePool, old: Path, new: Path) -> None:
    """Rename a file that may not exist, in the place of what `new` names."""
    if files.filesystem.exists(old):
        files.filesystem.replace(old, new)
    files.forget(old)
    files.forget(new)
