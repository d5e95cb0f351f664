"""The cluster the console looks at, for many requests at once.

A `ConnectionPool` belongs to one thread. Each question borrows one, asks in a thread of its own,
and gives it back; a question that failed throws it away, so that the next one connects afresh.
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


class Cluster:
    """Lends connections out."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._idle: deque[ConnectionPool] = deque()
        self._lock = Lock()
        self._limiter: CapacityLimiter | None = None
        self._closed = False

    @contextmanager
    def pool(self) -> Iterator[ConnectionPool]:
        """Connections for one thread and one question."""
        with self._lock:
            pool = self._idle.pop() if self._idle else ConnectionPool(self.settings)
        try:
            yield pool
        except BaseException as error:
            if isinstance(error, BrokerError):
                self._give_back(pool)
            else:
                pool.close()
            raise
        self._give_back(pool)

    async def ask(self, call: Callable[[ConnectionPool], T]) -> T:
        """Run a question in a thread; a few at once, the others wait."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(MOST_AT_ONCE)

        def run() -> T:
            with self.pool() as pool:
                return call(pool)

        return await run_sync(run, limiter=self._limiter)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for pool in idle:
            pool.close()

    def _give_back(self, pool: ConnectionPool) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_AT_ONCE:
                self._idle.append(pool)
                return
        pool.close()
