"""Whether a piece of a file is in the page cache, and reading it into there.

`sendfile` of pages that are not cached waits for the disk, and with it the event loop: some 10 ms a
seek on a spinning disk, and more when others read too. A consumer that reads old records would make
all others wait.

What is asked costs a microsecond: a read of one byte with RWF_NOWAIT, which fails where it would
wait (Linux 4.14). A file system that cannot say counts as cached.
"""

import os
from contextlib import suppress

from headrace.log.filesystem import File
from headrace.log.partition.log_slice import LogSlice

WINDOW_BYTES = 1024 * 1024
"""How much of a piece is looked at, read and sent at a time."""

CHECKED_BYTES = 16 * 1024
"""Smaller pieces are not looked at: they are mostly the newest records, which are cached."""

AHEAD_BYTES = 8 * 1024 * 1024
"""How much is asked of the disk at once for a client that reads a file from front to back."""

_REQUEST_BYTES = 256 * 1024
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


def read_ahead(piece: LogSlice, ahead_bytes: int = 0) -> None:
    """Read the first window of a piece into the cache. Waits for the disk: call it in a thread.

    Args:
        ahead_bytes: begin to read as many bytes after the window, too, without waiting for them.
    """
    assert piece.file is not None
    window = min(piece.size, WINDOW_BYTES)
    # What fails here fails again when it is sent, and ends the connection.
    with suppress(OSError):
        os.pread(piece.file.fileno(), window, piece.position)
    # Afterwards: the disk serves what came first, and a client waits for the window.
    request_pages(piece.file, piece.position + window, ahead_bytes)


def request_pages(file: File, position: int, size: int) -> None:
    """Let the kernel begin to read a part of a file. May wait for room in the disk's queue: call it
    in a thread."""
    # A call is cut to the disk's largest request, or to the kernel's own read-ahead.
    with suppress(OSError):
        for at in range(position, position + size, _REQUEST_BYTES):
            os.posix_fadvise(file.fileno(), at, _REQUEST_BYTES, os.POSIX_FADV_WILLNEED)
