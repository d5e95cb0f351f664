"""The consumer instances of this proxy. For one event loop.

Rule 1: an instance belongs to the proxy that made it: its `base_uri` names it.
Rule 2: one thread at a time uses an instance. Requests for one that is in use wait, without a
thread, and not for ever. One whose records are on their way to its client is in use: whether they
arrive decides where the next request goes on.
Rule 3: an instance that no request has used for the timeout leaves its group and is gone.
Rule 4: there are at most `MOST_INSTANCES`, and of one user a quarter of them. One that waits for
its group to rebalance holds a thread, so there may be as many threads; those without work are never
started.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog

from headrace.client.settings import ClientSettings
from headrace.gateway.rest.consumer.instance import ConsumerInstance, InstanceConfig
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request_body import busy
from headrace.gateway.rest.schema.registry_serde import RegistrySerde
from headrace.model.error import HeadraceError

log = structlog.get_logger()

MOST_INSTANCES: Final = 1024
MOST_INSTANCES_OF_USER: Final = MOST_INSTANCES // 4
_SWEEP_SECONDS: Final = 1.0
_HEARTBEAT_SECONDS: Final = 3.0
_LONGEST_WAIT_SECONDS: Final = 60.0

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Entry:
    instance: ConsumerInstance
    used_at: float
    kept_alive_at: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: int = 0


@dataclass(slots=True)
class Delivery:
    """Records on their way to a client.

    Attributes:
        body: a JSON array.
        has_room: false if there are records for which there is no room.
        is_sent: whether the client has them; who sends them says so.
    """

    body: bytes = b"[]"
    has_room: bool = True
    is_sent: bool = False


class ConsumerInstances:
    """Finds instances by group and name, and lets threads use them one at a time."""

    def __init__(
        self,
        settings: ClientSettings,
        timeout_seconds: float,
        loop: asyncio.AbstractEventLoop,
        schemas: RegistrySerde | None = None,
    ) -> None:
        self._settings = settings
        self._schemas = schemas
        self._timeout_seconds = timeout_seconds
        self._loop = loop
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._threads = ThreadPoolExecutor(MOST_INSTANCES, thread_name_prefix="rest-consumer")
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper = loop.create_task(self._sweep())

    def __len__(self) -> int:
        return len(self._entries)

    def create(self, config: InstanceConfig) -> None:
        """Make an instance; it connects later.

        Raises:
            RestError: there is one of this name, or there are too many, or of this user.
        """
        key = (config.group, config.name)
        if key in self._entries:
            raise RestError(
                409,
                "Consumer with specified consumer ID already exists in the specified consumer "
                "group.",
                40902,
            )
        if len(self._entries) >= MOST_INSTANCES:
            raise busy()
        owners = [each.instance.config.owner for each in self._entries.values()]
        if config.owner and owners.count(config.owner) >= MOST_INSTANCES_OF_USER:
            raise busy(f"A user has at most {MOST_INSTANCES_OF_USER} consumer instances.")
        now = self._loop.time()
        self._entries[key] = _Entry(
            ConsumerInstance(config, self._settings, self._schemas), now, now
        )

    def config(self, group: str, name: str) -> InstanceConfig:
        """Return how an instance was made.

        Raises:
            RestError: there is none.
        """
        return self._find(group, name).instance.config

    def sources(self, group: str, name: str) -> frozenset[str]:
        """Return the topics that an instance reads."""
        return self._find(group, name).instance.sources

    async def run(self, group: str, name: str, work: Callable[[ConsumerInstance], T]) -> T:
        """Run work on an instance in a thread, once no other work runs on it.

        Raises:
            RestError: there is no such instance, or it is in use for too long.
        """
        return await self._run(self._find(group, name), work, _LONGEST_WAIT_SECONDS)

    @asynccontextmanager
    async def reading(
        self,
        group: str,
        name: str,
        most_bytes: int,
        seconds: float,
        has_room: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[Delivery]:
        """Read records; nothing while the group rebalances for longer than `seconds`. Unless they
        are marked as sent at the end, the next read returns them again.

        Args:
            has_room: asked in a thread when records have come; without room they stay in the log.
        """
        entry = self._find(group, name)
        deadline = self._loop.time() + seconds
        while entry.instance.must_join:
            joining = asyncio.ensure_future(
                self._run(entry, ConsumerInstance.join, _LONGEST_WAIT_SECONDS)
            )
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.shield(joining)
            except TimeoutError:
                joining.add_done_callback(_forget)
                yield Delivery()
                return
        left = max(0.0, deadline - self._loop.time())
        delivery = Delivery()
        entry.requests += 1
        try:
            await self._acquire(entry, seconds + left + 1)
            future = self._loop.run_in_executor(
                self._threads, entry.instance.read, most_bytes, left, has_room
            )
            try:
                body = await asyncio.shield(future)
                delivery.has_room = body is not None
                delivery.body = body or delivery.body
                yield delivery
            finally:
                # The read may still run if its request was cancelled; it ends first.
                future.add_done_callback(lambda _: _end_read(entry, delivery))
        finally:
            entry.requests -= 1
            entry.used_at = self._loop.time()

    async def delete(self, group: str, name: str) -> None:
        """Remove an instance; it leaves its group in the background."""
        entry = self._find(group, name)
        del self._entries[group, name]
        self._close(entry, ConsumerInstance.finish)

    async def stop(self) -> None:
        """Let all instances leave their groups."""
        self._sweeper.cancel()
        for entry in self._entries.values():
            self._close(entry)
        self._entries.clear()
        if self._closing:
            await asyncio.wait(self._closing, timeout=10)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _find(self, group: str, name: str) -> _Entry:
        entry = self._entries.get((group, name))
        if entry is None:
            raise RestError(404, "Consumer instance not found.", 40403)
        entry.used_at = self._loop.time()
        return entry

    async def _run(self, entry: _Entry, work: Callable[[ConsumerInstance], T], seconds: float) -> T:
        entry.requests += 1
        try:
            await self._acquire(entry, seconds)
            future = self._loop.run_in_executor(self._threads, work, entry.instance)
            # The lock is held until the work ends, also if its request goes away.
            future.add_done_callback(lambda _: entry.lock.release())
            return await asyncio.shield(future)
        finally:
            entry.requests -= 1
            entry.used_at = self._loop.time()

    async def _acquire(self, entry: _Entry, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await entry.lock.acquire()
        except TimeoutError:
            raise RestError(
                409, "Illegal state: another request uses the instance.", 40903
            ) from None

    def _close(
        self, entry: _Entry, work: Callable[[ConsumerInstance], None] = ConsumerInstance.close
    ) -> None:
        task = self._loop.create_task(self._close_in_thread(entry, work))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_in_thread(
        self, entry: _Entry, work: Callable[[ConsumerInstance], None]
    ) -> None:
        try:
            await self._run(entry, work, _LONGEST_WAIT_SECONDS * 2)
        except (HeadraceError, RuntimeError) as error:
            log.warning("rest_consumer_close_failed", error=repr(error))

    async def _sweep(self) -> None:
        """Remove what is not used any more, and send heartbeats."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = self._loop.time()
            for key, entry in list(self._entries.items()):
                if entry.requests or entry.lock.locked():
                    continue
                if now - entry.used_at > self._timeout_seconds:
                    log.info("rest_consumer_expired", group=key[0], instance=key[1])
                    del self._entries[key]
                    self._close(entry)
                elif entry.instance.is_member and now - entry.kept_alive_at > _HEARTBEAT_SECONDS:
                    entry.kept_alive_at = now
                    self._keep_alive(entry)

    def _keep_alive(self, entry: _Entry) -> None:
        """Send a heartbeat in a thread; it does not count as use."""

        async def keep() -> None:
            used_at = entry.used_at
            try:
                await self._run(entry, ConsumerInstance.keep_alive, 0.1)
            except HeadraceError as error:
                log.info("rest_heartbeat_failed", error=repr(error))
            if not entry.requests:
                entry.used_at = used_at

        task = self._loop.create_task(keep())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _end_read(entry: _Entry, delivery: Delivery) -> None:
    if not delivery.is_sent:
        entry.instance.take_back()
    entry.lock.release()


def _forget(future: "asyncio.Future[None]") -> None:
    """Take note of a failure that no request waits for: the next read fails again and says so."""
    if not future.cancelled() and future.exception() is not None:
        log.info("rest_join_failed", error=repr(future.exception()))
