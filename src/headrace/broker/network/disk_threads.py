"""Threads that wait for the disk, so that the event loop does not.

They are no part of the loop's own executor, in which host names are looked up and stores are read:
a disk that is slow, or hangs, holds up the clients that read from it and nothing else.

Rule 1: a disk has at most `max_threads`, each started when there is work for it. The process does
not wait for them when it ends: a hung disk would hold it up.
Rule 2: what waits for a thread is bounded. A connection has one read at a time, and cancels it when
it closes. A hint is dropped when `max_hints` wait.
Rule 3: no thread serves two disks (`ThreadsByDisk`).
"""

import errno
import os
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

from headrace.log.filesystem import File

Work = Callable[[], object]


class DiskRead:
    """Work for a thread. Made by `DiskThreads`."""

    __slots__ = ("_done", "_work")

    def __init__(self, work: Work, done: Work | None) -> None:
        self._work = work
        self._done = done

    def run(self) -> None:
        """Do the work, in a thread."""
        try:
            self._work()
        finally:
            if self._done is not None:
                self._done()


class DiskThreads:
    """Runs reads of one disk in the order in which they came. Any thread may call it."""

    def __init__(self, max_threads: int = 8, max_hints: int = 64) -> None:
        self._max_threads = max_threads
        self._max_hints = max_hints
        self._changed = Condition()
        self._waiting: deque[DiskRead] = deque()
        self._threads = 0
        self._idle = 0

    def submit(self, work: Work, done: Work) -> DiskRead:
        """Run `work` in a thread, then `done` in the same one, also if `work` raised.

        Raises:
            OSError: there is no thread, and the system starts none.
        """
        read = DiskRead(work, done)
        with self._changed:
            self._add(read)
        return read

    def submit_hint(self, work: Work) -> bool:
        """Run `work` in a thread, and return True; return False where too much waits already.

        Only for work that is useful and not needed.

        Raises:
            OSError: there is no thread, and the system starts none.
        """
        with self._changed:
            if len(self._waiting) >= self._max_hints:
                return False
            self._add(DiskRead(work, None))
        return True

    def cancel(self, read: DiskRead) -> bool:
        """Drop a read that no thread has begun. Return whether it was dropped: neither its work nor
        its `done` is called then."""
        with self._changed:
            try:
                self._waiting.remove(read)
            except ValueError:
                return False
        return True

    def _add(self, read: DiskRead) -> None:
        self._waiting.append(read)
        try:
            self._start_thread_if_needed()
        except OSError:
            self._waiting.remove(read)
            raise
        self._changed.notify()

    def _start_thread_if_needed(self) -> None:
        if len(self._waiting) <= self._idle or self._threads >= self._max_threads:
            return
        try:
            Thread(target=self._serve, name="disk-read", daemon=True).start()
        except RuntimeError as error:
            if not self._threads:  # else one of them will do it
                raise OSError(errno.ENOMEM, "no thread to read from the disk") from error
        else:
            self._threads += 1

    def _serve(self) -> None:
        # Work that raises ends its thread, which reports it. Another one goes on.
        try:
            while True:
                self._next().run()
        finally:
            with self._changed:
                self._threads -= 1
                self._start_thread_if_needed()

    def _next(self) -> DiskRead:
        with self._changed:
            self._idle += 1
            while not self._waiting:
                self._changed.wait()
            self._idle -= 1
            return self._waiting.popleft()


class ThreadsByDisk:
    """The threads of each disk that was read from: as many as there are file systems. Any thread
    may call it."""

    def __init__(self, max_threads: int = 8) -> None:
        """`max_threads`: for each disk."""
        self._max_threads = max_threads
        self._by_device: dict[int, DiskThreads] = {}

    def of(self, file: File) -> DiskThreads:
        """Return the threads of the disk that a file lies on.

        Does not wait for that disk: the inode of an open file is in memory. Only a network file
        system may ask its server again; to send from there waits for that server, too.

        Raises:
            OSError: the file cannot be looked at.
        """
        device = os.fstat(file.fileno()).st_dev
        threads = self._by_device.get(device)
        if threads is None:
            # Of two that come here at once both get the first one's.
            threads = self._by_device.setdefault(device, DiskThreads(self._max_threads))
        return threads
