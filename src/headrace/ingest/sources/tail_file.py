"""A file that a taildir source follows: its identity, and the position in it."""

import os
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

# Enough to recognize a new file that got the inode of a deleted one.
HEAD_BYTES = 256


@dataclass(slots=True)
class TailFile:
    """A file, identified by its device and inode, under whatever name.

    Names change when logs are rotated, so they do not identify a file. The inode of a deleted file
    can be given to a new one, and a file can be truncated and written again (copytruncate). So
    `head` is a checksum of the first bytes that were read: a file that is shorter than the
    position, or begins differently, is a new file and is read from its start.

    Attributes:
        position: everything before it is delivered.
        group: the file group it belongs to.
        at_end: the last read found nothing: only then can the file have been replaced unnoticed.
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
        """Open the file under its present name.

        Raises:
            OSError: the file is gone, or another file has the name now.
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
        """Whether its name belongs to another file now, or to none: no program writes to it under
        that name any more."""
        try:
            status = self.path.stat()
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != (self.device, self.inode)

    def check_identity(self) -> bool:
        """Start over if this is not the file that was read. Return whether it is a new file."""
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
        """Note that everything before `position` is delivered."""
        self.position = position
        if self.head_bytes < HEAD_BYTES:
            self.head_bytes = min(HEAD_BYTES, position)
            self.head = crc32c(os.pread(self.descriptor, self.head_bytes, 0))
