"""Moves of the log start of followed logs: in a thread, never on the event loop.

To move a log start writes checkpoints and syncs files, as a truncation does (`log_truncations`).
When the leader applies retention, that concerns thousands of partitions at once.

Log starts move one partition after the other, and appends go on meanwhile. A later start replaces
an earlier one that has not been reached yet. One that the full disk did not take is tried again:
the leader of an idle partition does not repeat it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Lock

import structlog

from headrace.broker.network.loop_call import call_on
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import DiskFull, HeadraceError
from headrace.model.ids import TopicPartition

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 5.0


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
                        call_on(loop, lambda: loop.call_later(_RETRY_SECONDS, self._retry))
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
            call_on(loop, lambda: self._on_moved(name))
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
