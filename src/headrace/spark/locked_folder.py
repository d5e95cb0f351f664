"""A temporary folder of one process, which a later process removes if this one was killed.

    folder = LockedFolder.make()
    folder.path    # until `remove`

A process removes its folder when it ends. One that was killed cannot, so `remove_abandoned` removes
what processes of the same user left behind:

Rule 1: a process holds a lock (flock) on its folder, which the kernel releases when the process is
gone, whatever ended it. A process id would not do: the system uses it again.
Rule 2: only what this user made is removed, and nothing that a link leads to: a folder with our
kind of name, the right owner and mode, opened without following links, and in it nothing but
sockets. A folder that holds anything else stays as it is.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

# Short: a socket's path has room for 103 bytes, and a folder for temporary files may take 49.
_PREFIX: Final = "hr-"
_NAME: Final = re.compile(r"hr-[a-z0-9_]{8}")
# How many folders a process looks at: another user may have made any number of that name.
_MAX_FOLDERS: Final = 256
_ATTEMPTS: Final = 3
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LockedFolder:
    """A folder that only this user may enter, empty at first, and its lock.

    A forked child has the lock as well, and keeps it as long as it lives.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        """Use `make`."""
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def make(cls) -> "LockedFolder":
        """Make a folder among the temporary files, and lock it.

        Another process may see the folder before it is locked, and remove it. Then make another.

        Raises:
            OSError: no folder can be made.
        """
        for _ in range(_ATTEMPTS):
            path = tempfile.mkdtemp(prefix=_PREFIX)
            with suppress(FileNotFoundError):
                descriptor = os.open(path, _OPEN)
                if _lock_new(descriptor) and _leads_to(path, descriptor):
                    return cls(path, descriptor)
                os.close(descriptor)
        raise FileNotFoundError(f"new folders in {tempfile.gettempdir()} are removed at once")

    def exists(self) -> bool:
        """Return whether the folder is still there."""
        return _leads_to(self.path, self._descriptor)

    def remove(self) -> None:
        """Remove the folder with all that it holds, if it is still there, and its lock."""
        if self.exists():
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)


def remove_abandoned() -> None:
    """Remove the folders of this user's processes that are gone; what cannot be removed stays."""
    parent = tempfile.gettempdir()
    with suppress(OSError), os.scandir(parent) as entries:
        named = (each.path for each in entries if _NAME.fullmatch(each.name))
        for path in list(islice(named, _MAX_FOLDERS)):
            with suppress(OSError):
                _remove_if_abandoned(path)


def _lock_new(descriptor: int) -> bool:
    """Lock a folder that this process has just made; return False if another one was faster."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without such locks: no process removes the folder either
    return True


def _remove_if_abandoned(path: str) -> None:
    """Remove a folder if it is of this kind and no process holds its lock.

    Raises:
        OSError: it is no folder, it is locked, or it cannot be removed.
    """
    folder = os.open(path, _OPEN)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
            return
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        names = os.listdir(folder)  # noqa: PTH208, by its descriptor: the path may have changed
        if not all(_is_socket(name, folder) for name in names):
            return
        for name in names:
            os.unlink(name, dir_fd=folder)
        if _leads_to(path, folder):
            Path(path).rmdir()
    finally:
        os.close(folder)


def _is_socket(name: str, folder: int) -> bool:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return stat.S_ISSOCK(status.st_mode)


def _leads_to(path: str, folder: int) -> bool:
    """Return whether a path names the folder that was opened, and not a link or another one."""
    try:
        return os.path.samestat(os.fstat(folder), Path(path).lstat())
    except OSError:
        return False
