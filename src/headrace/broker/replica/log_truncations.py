"""Truncations of followed logs: in threads, never on the event loop.

Truncating a log writes checkpoints and snapshots and syncs files, some 10 to 30 ms per partition.
After a failover that concerns thousands of partitions at once, and no client may wait for them.

Rule 1: while a log is truncated nothing is appended to it and nothing is fetched for it. That holds
for the log, not for one leader epoch: the follower of the next epoch waits as well.
Rule 2: a broker that begins to lead a partition waits for a truncation that has begun (`settle`).
It is the one case in which the loop waits: a leader must know where its log ends. A truncation that
has not begun is dropped: it was to bring the log in line with a leader that is none any more. And
no other begins before the loop has gone on, so that who begins to lead thousands of partitions
waits for those few that had begun, not for all in turn.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Event, Lock
from typing import NamedTuple

import structlog

from headrace.broker.network.loop_call import call_on
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

log = structlog.get_logger(__name__)

# A loop that has stopped meanwhile holds no thread for ever.
_LONGEST_HOLD_SECONDS = 1.0


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
                call_on(loop, failed)
            except Exception as error:
                log.error("partition_not_truncated", partition=str(name), exc_info=error)
                call_on(loop, failed)

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
