"""A file that a taildir source follows: its identity, and the position in it."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from crc32c import crc32c

# Enough to recognize a new file that got the inode of a deleted one.
HEAD_BYTES = 256
# Log lines have a time in them, so the last lines before the position are in no other file.
TAIL_BYTES = 256


@dataclass(slots=True)
class TailFile:
    """A file, identified by its device and inode, under whatever name.

    Names change when logs are rotated, so they do not identify a file. The inode of a deleted file
    can be given to a new one, and a file can be truncated and written again (copytruncate). So
    `head` is a checksum of the first bytes that were read, and `tail` one of the last bytes before
    the position: many files begin with the same comment. A file that is shorter than the position,
    or differs in either place, is a new file and is read from its start.

    Attributes:
        position: everything before it is delivered.
        group: the file group it belongs to.
        last_read: the bytes that `tail` is of, if this process has read them.
        checked_at: the time of change, in nanoseconds, at which the identity was checked last.
        looked_for: no group matches it, and its directory was searched for its inode.
    """

    device: int
    inode: int
    path: Path
    group: str
    position: int = 0
    head: int = 0
    head_bytes: int = 0
    tail: int = 0
    tail_bytes: int = 0
    last_read: bytes = b""
    descriptor: int = -1
    changed_at: float = 0.0
    checked_at: int = 0
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
        status = os.fstat(self.descriptor)
        self.checked_at = status.st_mtime_ns
        if self.position == 0:
            return False
        if status.st_size < self.position or not self._reads_as_before():
            self.position = self.head = self.head_bytes = self.tail = self.tail_bytes = 0
            self.last_read = b""
            return True
        return False

    def renumbered(self, device: int, path: Path) -> "TailFile | None":
        """Return the file at a path, if it has our inode on a device of another number, and the
        bytes that were read. It is closed if it has no more than those.

        Raises:
            OSError: it cannot be opened.
        """
        # Without a checksum, at the beginning of a file and in Flume's positions, the name must do.
        if path != self.path and not (self.head_bytes or self.tail_bytes):
            return None
        file = replace(self, device=device, path=path, descriptor=-1, looked_for=True)
        file.open()
        if file.check_identity():
            file.close()
            return None
        if file.size() == file.position:
            file.close()
        return file

    def _reads_as_before(self) -> bool:
        if self.head_bytes:
            start = os.pread(self.descriptor, self.head_bytes, 0)
            if crc32c(start) != self.head:
                return False
        # A position of Flume's, or of an older agent, has no checksum: it gets one now.
        size = self.tail_bytes or min(TAIL_BYTES, self.position)
        before = os.pread(self.descriptor, size, self.position - size)
        if self.tail_bytes:
            return crc32c(before) == self.tail
        self._set_tail(before)
        return True

    def moved_to(self, position: int, read: bytes | memoryview) -> None:
        """Note that everything before `position` is delivered.

        Args:
            read: the last bytes before `position` that were read. The file may have been
                rewritten since, so they are not read again for the checksum.
        """
        self.position = position
        if self.head_bytes < HEAD_BYTES:
            self.head_bytes = min(HEAD_BYTES, position)
            self.head = crc32c(os.pread(self.descriptor, self.head_bytes, 0))
        self._set_tail((self.last_read + bytes(read[-TAIL_BYTES:]))[-TAIL_BYTES:])

    def take_position(self, saved: "TailFile") -> None:
        """Go on at the position that another process stored for the same file."""
        self.position, self.last_read = saved.position, b""
        self.tail, self.tail_bytes = saved.tail, saved.tail_bytes

    def _set_tail(self, before: bytes) -> None:
        self.last_read, self.tail_bytes, self.tail = before, len(before), crc32c(before)
