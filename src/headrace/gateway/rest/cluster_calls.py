"""The proxy's calls to the cluster: in threads, each with connections of its own.

Rule 1: nothing on the event loop waits for a broker.
Rule 2: no more than `MOST_WAITING` calls wait for a thread; the next one is refused.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeVar

from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.request_body import busy

THREADS: Final = 8
MOST_WAITING: Final = 512
_TIMEOUT_MS: Final = 10_000
NO_CLUSTER_ID: Final = "unknown"

T = TypeVar("T")


class ClusterCalls:
    """Runs work that needs a `ConnectionPool`. Its methods are for one event loop."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = replace(
            settings,
            api_timeout_ms=min(settings.api_timeout_ms, _TIMEOUT_MS),
            request_timeout_ms=min(settings.request_timeout_ms, _TIMEOUT_MS),
        )
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rest-control")
        self._local = threading.local()
        self._pools: list[ConnectionPool] = []
        self._waiting = 0
        self._cluster_id: str | None = None

    async def run(self, work: Callable[[ConnectionPool], T]) -> T:
        """Run work in a thread.

        Raises:
            RestError: too much waits already.
        """
        if self._waiting >= MOST_WAITING:
            raise busy()
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._work, work)
        finally:
            self._waiting -= 1

    async def cluster_id(self) -> str:
        """Return the cluster's id, which stays."""
        if self._cluster_id is None:
            self._cluster_id = await self.run(
                lambda pool: pool.metadata(()).cluster_id or NO_CLUSTER_ID
            )
        return self._cluster_id

    def close(self) -> None:
        """End once the calls that run have ended."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for pool in self._pools:
            pool.close()

    def _work(self, work: Callable[[ConnectionPool], T]) -> T:
        pool: ConnectionPool | None = getattr(self._local, "pool", None)
        if pool is None:
            pool = self._local.pool = ConnectionPool(self._settings)
            self._pools.append(pool)
        return work(pool)
