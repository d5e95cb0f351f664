"""One file that is followed: who it is, and how far it has been read."""

import os
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

# Enough to tell a file from one that got its inode after it was deleted.
HEAD_BYTES = 256


@dataclass(slots=True)
class TailFile:
    """A file by device and inode, whatever it is called at the moment.

    Names change when logs are rotated, so a name says nothing. An inode can be given to a new file
    once the old one is deleted, and a file can be cut and written anew (copytruncate); the first
    bytes tell: `head` is their checksum when they were read. A file that is shorter than what was
    read of it, or begins otherwise, is a new one and read from its start.

    Attributes:
        position: everything before it is delivered.
        group: which file group it belongs to.
        at_end: the last read found nothing: only then can the file have been replaced unseen.
        looked_for: no group matches it, and its directory was searched for its inode.
    """

    device: int
    inode: int
    path: Path
    group: str
    position: int = 0
    head: int = 0
    head_bytes: int = 0
    descriptor: int = -1
    changed_at: float = 0.0
    at_end: bool = False
    looked_for: bool = False

    @property
    def key(self) -> str:
        return f"{self.device}:{self.inode}"

    def open(self) -> None:
        """Open it under the name it has.

        Raises:
            OSError: it is gone, or another file has the name by now.
        """
        if self.descriptor >= 0:
            return
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (self.device, self.inode):
            os.close(descriptor)
            raise FileNotFoundError(f"{self.path} is another file now")
        self.descriptor = descriptor

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    @property
    def deleted(self) -> bool:
        return self.descriptor >= 0 and os.fstat(self.descriptor).st_nlink == 0

    @property
    def rotated(self) -> bool:
        """Whether its name belongs to another file now, or to none: nobody will write to it under
        that name."""
        try:
            status = self.path.stat()
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != (self.device, self.inode)

    def check_identity(self) -> bool:
        """Start over if this is not the file that was read; whether it is a new one."""
        if self.position == 0:
            return False
        replaced = self.size() < self.position
        if not replaced and self.head_bytes:
            start = os.pread(self.descriptor, self.head_bytes, 0)
            replaced = crc32c(start) != self.head
        if replaced:
            self.position = self.head = self.head_bytes = 0
        return replaced

    def moved_to(self, position: int) -> None:
        """Everything before `position` is delivered."""
        self.position = position
        if self.head_bytes < HEAD_BYTES:
            self.head_bytes = min(HEAD_BYTES, position)
            self.head = crc32c(os.pread(self.descriptor, self.head_bytes, 0))
