"""What a connection still has to send: bytes, and pieces of files that never become bytes here.

Rule 1: the last send of an answer never carries MSG_MORE: the kernel would hold it for 200 ms.
Rule 2: one turn sends at most `_TURN_BYTES`, so that a fast reader of large answers does not keep
the event loop from all other connections.
Rule 3: a file that ends before its piece was sent ends the connection. The length of the answer is
announced already, and the client would read whatever came instead of the missing bytes as records.
Rule 4: a piece that is not in the page cache is read by a thread first, a window at a time; nothing
is sent meanwhile. Only small pieces are sent without a look (`page_cache`).
Rule 5: for a client that reads a file which is not cached from front to back, the disk is asked for
what comes next before it is needed, also beyond the piece: the next request is for that.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from weakref import ref

from headrace.broker.network.disk_threads import DiskRead, DiskThreads, ThreadsByDisk
from headrace.broker.network.page_cache import (
    AHEAD_BYTES,
    CHECKED_BYTES,
    WINDOW_BYTES,
    is_cached,
    read_ahead,
    request_pages,
)
from headrace.log.filesystem import File
from headrace.log.partition.log_slice import LogSlice

Part: TypeAlias = bytes | bytearray | memoryview | LogSlice
Parts: TypeAlias = Sequence[Part]

# As many buffers as one sendmsg gathers; Linux takes at most 1024.
_MAX_GATHER = 64
_TURN_BYTES = 1024 * 1024
# For all connections, and for all brokers of a process: they share its disks.
_threads_by_disk: Final = ThreadsByDisk()


class _Ahead(NamedTuple):
    """A file that a client reads from the disk, and the position up to which that was asked for.

    The file is referred to weakly: a client that has stopped reading keeps no deleted file.
    """

    file: Callable[[], File | None]
    end: int

    def leads_to(self, piece: LogSlice) -> bool:
        """Return whether a piece goes on where the last one ended. A client asks again for a batch
        that was cut off."""
        return self.file() is piece.file and abs(self.end - piece.position) <= WINDOW_BYTES


_NOT_AHEAD: Final = _Ahead(lambda: None, 0)


class Outbox:
    """Parts on their way into a non-blocking socket, first in, first out.

    Attributes:
        held_bytes: bytes in memory that wait; pieces of files cost none and do not count.
        reading_ahead: a thread reads what is sent next (rule 4): do not wait for the socket.
    """

    __slots__ = (
        "_ahead",
        "_checked_position",
        "_loop",
        "_on_read",
        "_parts",
        "_read",
        "_sock",
        "_threads",
        "held_bytes",
        "reading_ahead",
    )

    def __init__(
        self,
        sock: socket.socket,
        loop: asyncio.AbstractEventLoop,
        on_read: Callable[[], object],
    ) -> None:
        """`on_read` is called when `reading_ahead` has ended: call `write` then."""
        self._sock = sock
        self._loop = loop
        self._on_read = on_read
        self._parts: deque[Part] = deque()
        self._checked_position = -1
        self._ahead = _NOT_AHEAD
        self._read: DiskRead | None = None
        self._threads: DiskThreads | None = None
        self.held_bytes = 0
        self.reading_ahead = False

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, parts: Parts) -> None:
        for part in parts:
            if isinstance(part, LogSlice):
                if part.size:
                    self._parts.append(part)
            elif part:
                self._parts.append(part)
                self.held_bytes += len(part)

    def clear(self) -> None:
        """Forget everything: the connection is closed."""
        read, threads = self._read, self._threads
        if read is not None and threads is not None and threads.cancel(read):
            self._read = None
            self.reading_ahead = False
        self._parts.clear()
        self._ahead = _NOT_AHEAD
        self.held_bytes = 0

    def write(self, parts: Parts = ()) -> int:
        """Add `parts`, hand the kernel what it takes in one turn, and return how many bytes.

        Raises:
            OSError: the peer is gone, or a piece's file cannot be read to its end.
        """
        self.add(parts)
        sent = 0
        try:
            while self._parts and sent < _TURN_BYTES and not self.reading_ahead:
                piece = self._parts[0]
                if isinstance(piece, LogSlice):
                    if piece.size >= CHECKED_BYTES and not self._is_ready(piece):
                        break
                    sent += self._send_piece(piece, min(_TURN_BYTES - sent, WINDOW_BYTES))
                else:
                    sent += self._send_bytes()
        except (BlockingIOError, InterruptedError):
            pass
        return sent

    def _is_ready(self, piece: LogSlice) -> bool:
        """Return whether a piece can be sent; if not, a thread reads it first. Once for a position:
        the cache may be too small to hold what was read."""
        if piece.position == self._checked_position or is_cached(piece):
            self._checked_position = -1
            self._keep_ahead(piece)
            return True
        self._checked_position = piece.position
        self.reading_ahead = True
        assert piece.file is not None
        ahead_bytes = AHEAD_BYTES if self._ahead.leads_to(piece) else 0
        window_end = piece.position + min(piece.size, WINDOW_BYTES)
        self._ahead = _Ahead(ref(piece.file), window_end + ahead_bytes)
        self._threads = _threads_by_disk.of(piece.file)
        self._read = self._threads.submit(
            partial(read_ahead, piece, ahead_bytes), self._report_read_ahead
        )
        return False

    def _keep_ahead(self, piece: LogSlice) -> None:
        """Ask the disk for the next part, when half of the last one was sent (rule 5)."""
        file, end = self._ahead
        if piece.file is None or file() is not piece.file:
            return
        if WINDOW_BYTES < end - piece.position <= AHEAD_BYTES // 2:
            request = partial(request_pages, piece.file, end, AHEAD_BYTES // 2)
            if _threads_by_disk.of(piece.file).submit_hint(request):
                self._ahead = _Ahead(file, end + AHEAD_BYTES // 2)

    def _report_read_ahead(self) -> None:
        """Called in the thread that has read."""
        with suppress(RuntimeError):  # the loop has been closed, and all connections with it
            self._loop.call_soon_threadsafe(self._on_read_ahead)

    def _on_read_ahead(self) -> None:
        self._read = None
        self.reading_ahead = False
        if self._parts:  # or the connection was closed meanwhile
            self._on_read()

    def _send_bytes(self) -> int:
        gather: list[bytes | bytearray | memoryview] = []
        more = 0
        for part in self._parts:
            if isinstance(part, LogSlice) or len(gather) == _MAX_GATHER:
                more = socket.MSG_MORE
                break
            gather.append(part)
        sent = left = self._sock.sendmsg(gather, (), more)
        self.held_bytes -= sent
        for part in gather:
            if left < len(part):
                self._parts[0] = memoryview(part)[left:]
                break
            self._parts.popleft()
            left -= len(part)
        return sent

    def _send_piece(self, piece: LogSlice, limit: int) -> int:
        assert piece.file is not None
        sent = os.sendfile(
            self._sock.fileno(), piece.file.fileno(), piece.position, min(piece.size, limit)
        )
        if sent == 0:
            raise ConnectionAbortedError(f"{piece.file.path} ended before all of it was sent")
        if sent == piece.size:
            self._parts.popleft()
        else:
            self._parts[0] = piece._replace(position=piece.position + sent, size=piece.size - sent)
        return sent
