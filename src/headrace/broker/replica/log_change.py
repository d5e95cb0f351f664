"""Changes of followed logs that wait for the disk: in threads, never on the event loop.

Truncating a log and moving its start write checkpoints and snapshots and sync files, some 10 to 30
ms per partition. After a failover, or when the leader applies retention, that concerns thousands of
partitions at once, and no client may wait for them.

Rule 1: while a log is truncated nothing is appended to it and nothing is fetched for it. That holds
for the log, not for one leader epoch: the follower of the next epoch waits as well.
Rule 2: a broker that begins to lead a partition waits for a truncation that has begun (`settle`).
It is the one case in which the loop waits: a leader must know where its log ends. A truncation that
has not begun is dropped: it was to bring the log in line with a leader that is none any more. And
no other begins before the loop has gone on, so that who begins to lead thousands of partitions
waits for those few that had begun, not for all in turn.
Rule 3: log starts move one partition after the other, and appends go on meanwhile. A later start
replaces an earlier one that has not been reached yet. One that the full disk did not take is tried
again: the leader of an idle partition does not repeat it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Event, Lock
from typing import NamedTuple

import structlog

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import DiskFull, HeadraceError
from headrace.model.ids import TopicPartition

log = structlog.get_logger(__name__)

# A loop that has stopped meanwhile holds no thread for ever.
_LONGEST_HOLD_SECONDS = 1.0
_RETRY_SECONDS = 5.0


class _Truncation(NamedTuple):
    """One that was asked for. The first to take `claim` runs it, or drops it."""

    claim: Lock
    done: Future[None]

    def drop(self) -> bool:
        """Return whether it had not begun, and never will."""
        return self.claim.acquire(blocking=False)


class LogTruncations:
    """The truncations under way, at most one per log. Lives on the event loop."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._running: dict[TopicPartition, _Truncation] = {}
        self._may_begin = Event()
        self._may_begin.set()

    def begin(
        self, name: TopicPartition, truncate: Callable[[], object], failed: Callable[[], object]
    ) -> None:
        """Truncate a log in a thread.

        Args:
            truncate: changes the log; nothing else may append to it until `under_way` is False.
            failed: called on the loop when that ended with an error, which is logged here.
        """
        loop = asyncio.get_running_loop()
        claim = Lock()

        def run() -> None:
            self._may_begin.wait(_LONGEST_HOLD_SECONDS)
            if not claim.acquire(blocking=False):
                return
            try:
                truncate()
            except HeadraceError as error:
                log.error("partition_not_truncated", partition=str(name), reason=str(error))
                _call_on(loop, failed)
            except Exception as error:
                log.error("partition_not_truncated", partition=str(name), exc_info=error)
                _call_on(loop, failed)

        self._running[name] = _Truncation(claim, self._threads.submit(run))

    def under_way(self, name: TopicPartition) -> bool:
        running = self._running.get(name)
        if running is None:
            return False
        if running.done.done():
            del self._running[name]
            return False
        return True

    def settle(self, name: TopicPartition) -> None:
        """Wait, on the loop, until the log is not being truncated any more (rule 2)."""
        running = self._running.pop(name, None)
        if running is None:
            return
        if self._may_begin.is_set():
            self._may_begin.clear()
            asyncio.get_running_loop().call_soon(self._may_begin.set)
        if not running.drop():
            running.done.result()

    async def finished(self) -> None:
        """Drop what has not begun, and return when no truncation is under way any more."""
        begun = [each.done for each in self._running.values() if not each.drop()]
        running = [asyncio.wrap_future(each) for each in begun]
        await asyncio.gather(*running, return_exceptions=True)


class LogStartQueue:
    """The log starts that followers still have to move to, one thread at a time.

    Bounded by the number of partitions. Threads: `request` on the event loop.

    Args:
        on_moved: called on the loop when a log start has moved.
    """

    def __init__(
        self, threads: Executor, on_moved: Callable[[TopicPartition], object] = lambda name: None
    ) -> None:
        self._threads = threads
        self._on_moved = on_moved
        self._lock = Lock()
        self._wanted: dict[TopicPartition, tuple[PartitionLog, int]] = {}
        # What the full disk did not take.
        self._later: dict[TopicPartition, tuple[PartitionLog, int]] = {}
        self._running: Future[None] | None = None
        self._retry_is_due = False
        self._stopped = False

    def request(self, stored: PartitionLog, log_start: int) -> None:
        """Let a log start at `log_start`, soon."""
        with self._lock:
            self._wanted[stored.partition] = stored, log_start
            self._start()

    def _start(self) -> None:
        """Let a thread work, if there is something to do. Under the lock."""
        if self._wanted and self._running is None:
            loop = asyncio.get_running_loop()
            self._running = self._threads.submit(self._move_all, loop)

    def _retry(self) -> None:
        with self._lock:
            self._retry_is_due = False
            if not self._stopped:
                self._wanted = self._later | self._wanted
                self._start()

    def _move_all(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._running = None
                    if self._later and not self._retry_is_due:
                        self._retry_is_due = True
                        _call_on(loop, lambda: loop.call_later(_RETRY_SECONDS, self._retry))
                    return
                name = next(iter(self._wanted))
                stored, log_start = self._wanted.pop(name)
            full = self._move(stored, log_start, loop)
            with self._lock:
                if not full:
                    self._later.pop(name, None)
                else:
                    if name not in self._later:
                        log.warning("log_start_not_moved", partition=str(name), reason=str(full))
                    self._later[name] = stored, log_start

    def _move(
        self, stored: PartitionLog, log_start: int, loop: asyncio.AbstractEventLoop
    ) -> DiskFull | None:
        """Return an error after which it is to be tried again."""
        name = stored.partition
        try:
            stored.delete_records(log_start)
        except DiskFull as error:
            return error
        except HeadraceError as error:
            # The log is gone, or was truncated meanwhile: the leader's next response says more.
            log.debug("log_start_not_moved", partition=str(name), reason=str(error))
        except Exception as error:
            log.error("log_start_not_moved", partition=str(name), exc_info=error)
        else:
            _call_on(loop, lambda: self._on_moved(name))
        return None

    async def finished(self) -> None:
        """Forget what has not begun, and return when nothing is under way any more."""
        with self._lock:
            self._stopped = True
            self._wanted.clear()
            self._later.clear()
            running = self._running
        if running is not None:
            await asyncio.wrap_future(running)


def _call_on(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:
        # The loop is closed: the broker has stopped.
        return
