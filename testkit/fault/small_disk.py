"""A disk that can be filled: a file system in memory, mounted where a broker keeps its data."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from testkit.peer.peer import PeerMissing

_libc = ctypes.CDLL(None, use_errno=True)
_DETACH = 2
_BALLAST = ".ballast"


class SmallDisk:
    """`mount` first; as root only. Its data is gone with `unmount`.

    Example:
        disk = SmallDisk(broker.data)
        disk.mount()
        disk.fill()
        disk.make_room()
    """

    def __init__(self, folder: Path, size_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self._size_bytes = size_bytes

    def mount(self) -> None:
        """Mount it.

        Raises:
            PeerMissing: this process may not mount.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        options = f"size={self._size_bytes}".encode()
        if _libc.mount(b"tmpfs", str(self.folder).encode(), b"tmpfs", 0, options):
            why = os.strerror(ctypes.get_errno())
            raise PeerMissing(f"a disk of its own cannot be mounted at {self.folder}: {why}")

    def fill(self) -> None:
        """Leave no room at all."""
        with (self.folder / _BALLAST).open("ab", buffering=0) as ballast, suppress(OSError):
            for size in (1 << 20, 1):
                piece = bytes(size)
                with suppress(OSError):
                    while ballast.write(piece) == size:
                        pass

    def make_room(self) -> None:
        (self.folder / _BALLAST).unlink(missing_ok=True)

    def unmount(self) -> None:
        """Unmount it, also while a process has a file open in it."""
        _libc.umount2(str(self.folder).encode(), _DETACH)
