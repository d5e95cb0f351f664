"""The result of a read: a piece of a file, not bytes."""

from typing import NamedTuple

from headrace.log.filesystem import File
from headrace.model.offset import Offset


class LogSlice(NamedTuple):
    """Batches of one segment, ready for `os.sendfile(socket, slice.file.fileno(), position, size)`.

    Holding the slice holds the file: neither retention nor compaction nor the pool of open files
    closes it while it is being sent.

    Attributes:
        file: None only when `size` is 0.
        first_offset: base offset of the first batch. It may lie below the offset asked for, because
            a batch is never cut at its start; clients skip what they did not ask for.
        end_offset: no record in the slice has this offset or a higher one. Not tight: the byte
            budget may have ended the slice earlier, even in the middle of its last batch.
    """

    file: File | None
    position: int
    size: int
    first_offset: Offset
    end_offset: Offset

    def read(self) -> bytes:
        """Return the bytes themselves, for small responses and for tests."""
        if self.file is None:
            return b""
        return self.file.pread(self.size, self.position)
