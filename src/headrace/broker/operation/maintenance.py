"""What a broker does beside serving: retention, compaction, timed syncs, checkpoints.

Each chore runs in a thread of its own, one run of it at a time, and starts again a while after it
ended: a compaction that takes minutes holds up neither the other chores nor a request that needs a
thread. The log's kernels release the GIL and its locks are never held while the disk works, so
requests are served meanwhile. A chore that fails is logged and run again; a failed disk has taken
its directory offline by then, and a full one has not.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from headrace.model.error import DiskFull

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chore:
    """Work to repeat: its name for the log, how long to rest, and what to do. A function says how
    long to rest where that may change while the broker runs."""

    name: str
    rest_ms: int | Callable[[], int]
    work: Callable[[], object]

    @property
    def rest_seconds(self) -> float:
        return (self.rest_ms() if callable(self.rest_ms) else self.rest_ms) / 1000


class Maintenance:
    """Runs chores until it is stopped."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._threads: ThreadPoolExecutor | None = None

    def start(self, chores: list[Chore]) -> None:
        self._threads = ThreadPoolExecutor(len(chores), thread_name_prefix="chore")
        self._tasks = [asyncio.create_task(self._repeat(chore)) for chore in chores]

    async def stop(self) -> None:
        """Wait for the runs under way, and begin no other."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown()

    async def _repeat(self, chore: Chore) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(chore.rest_seconds)
            run = loop.run_in_executor(self._threads, chore.work)
            try:
                await asyncio.shield(run)
            except asyncio.CancelledError:
                await asyncio.wait([run])
                raise
            except DiskFull as error:
                log.warning("chore_waits", chore=chore.name, reason=str(error))
            except Exception as error:
                log.error("chore_failed", chore=chore.name, exc_info=error)
