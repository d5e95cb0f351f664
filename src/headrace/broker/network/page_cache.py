"""Whether a piece of a file is in the page cache, and reading it into there.

`sendfile` of pages that are not cached waits for the disk, and with it the event loop: some 10 ms a
seek on a spinning disk, and more when others read too. A consumer that reads old records would make
all others wait.

What is asked costs a microsecond: a read of one byte with RWF_NOWAIT, which fails where it would
wait (Linux 4.14). A file system that cannot say counts as cached.
"""

import os
from contextlib import suppress

from headrace.log.partition.log_slice import LogSlice

WINDOW_BYTES = 1024 * 1024
"""How much of a piece is looked at, read and sent at a time."""

CHECKED_BYTES = 16 * 1024
"""Smaller pieces are not looked at: they are mostly the newest records, which are cached."""

_byte = bytearray(1)


def is_cached(piece: LogSlice) -> bool:
    """Return whether the first window of a piece is cached, as its first and last page say. Event
    loop only."""
    assert piece.file is not None
    fd = piece.file.fileno()
    last = piece.position + min(piece.size, WINDOW_BYTES) - 1
    try:
        os.preadv(fd, (_byte,), piece.position, os.RWF_NOWAIT)
        os.preadv(fd, (_byte,), last, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def read_ahead(piece: LogSlice) -> None:
    """Read the first window of a piece into the cache. Waits for the disk: call it in a thread."""
    assert piece.file is not None
    # What fails here fails again when it is sent, and ends the connection.
    with suppress(OSError):
        os.pread(piece.file.fileno(), min(piece.size, WINDOW_BYTES), piece.position)
