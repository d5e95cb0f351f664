"""Truncations of followed logs: in threads, never on the event loop.

Truncating a log writes checkpoints and snapshots and syncs files, some 10 to 30 ms per partition.
After a failover that concerns thousands of partitions at once, and no client may wait for them.

Rule 1: while a log is truncated nothing is appended to it and nothing is fetched for it. That holds
for the log, not for one leader epoch: the follower of the next epoch waits as well.
Rule 2: a broker that begins to lead a partition waits until its log has been truncated (`settle`).
It is the one case in which the loop waits: a leader must know where its log ends.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future

import structlog

from headrace.broker.network.loop_call import call_on
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

log = structlog.get_logger(__name__)


class LogTruncations:
    """The truncations under way, at most one per log. Lives on the event loop."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._running: dict[TopicPartition, Future[None]] = {}

    def begin(
        self, name: TopicPartition, truncate: Callable[[], object], failed: Callable[[], object]
    ) -> None:
        """Truncate a log in a thread.

        Args:
            truncate: changes the log; nothing else may append to it until `under_way` is False.
            failed: called on the loop when that ended with an error, which is logged here.
        """
        loop = asyncio.get_running_loop()

        def run() -> None:
            try:
                truncate()
            except HeadraceError as error:
                log.error("partition_not_truncated", partition=str(name), reason=str(error))
                call_on(loop, failed)
            except Exception as error:
                log.error("partition_not_truncated", partition=str(name), exc_info=error)
                call_on(loop, failed)

        self._running[name] = self._threads.submit(run)

    def under_way(self, name: TopicPartition) -> bool:
        running = self._running.get(name)
        if running is None:
            return False
        if running.done():
            del self._running[name]
            return False
        return True

    def settle(self, name: TopicPartition) -> None:
        """Wait, on the loop, until the log is not being truncated any more (rule 2)."""
        running = self._running.pop(name, None)
        if running is not None:
            running.result()

    async def finished(self) -> None:
        """Return when no truncation is under way any more."""
        running = [asyncio.wrap_future(each) for each in self._running.values()]
        await asyncio.gather(*running, return_exceptions=True)
