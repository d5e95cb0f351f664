"""Runs calls to the cluster for several HTTP requests at once.

A `ConnectionPool` belongs to one thread. Each call borrows a pool and runs in a worker thread. The
pool is reused afterwards, unless the call failed to reach the cluster: the next call then connects
again.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings

T = TypeVar("T")

MOST_AT_ONCE: Final = 8
MOST_LONG_AT_ONCE: Final = 32


class ClusterClient:
    """Lends connection pools to calls, a bounded number at once."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._idle: deque[ConnectionPool] = deque()
        self._lock = Lock()
        self._limiter: CapacityLimiter | None = None
        self._long_limiter: CapacityLimiter | None = None
        self._closed = False

    @contextmanager
    def pool(self) -> Iterator[ConnectionPool]:
        """Lend connections to one thread for one call."""
        with self._lock:
            pool = self._idle.pop() if self._idle else ConnectionPool(self.settings)
        try:
            yield pool
        except BaseException as error:
            if isinstance(error, BrokerError):
                self._return(pool)
            else:
                pool.close()
            raise
        self._return(pool)

    async def run(self, call: Callable[[ConnectionPool], T]) -> T:
        """Run a call in a worker thread and return its result; a few run at once, others wait."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(MOST_AT_ONCE)
        return await self._run(call, self._limiter)

    async def run_long(self, call: Callable[[ConnectionPool], T]) -> T:
        """Run a call that waits for something else than the cluster: `run` does not wait for it."""
        if self._long_limiter is None:
            self._long_limiter = CapacityLimiter(MOST_LONG_AT_ONCE)
        return await self._run(call, self._long_limiter)

    async def _run(self, call: Callable[[ConnectionPool], T], limiter: CapacityLimiter) -> T:
        def with_pool() -> T:
            with self.pool() as pool:
                return call(pool)

        return await run_sync(with_pool, limiter=limiter)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for pool in idle:
            pool.close()

    def _return(self, pool: ConnectionPool) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_AT_ONCE:
                self._idle.append(pool)
                return
        pool.close()
