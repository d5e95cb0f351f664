"""Writes the records of all requests, with one produce request per leader at a time.

While a request to a leader is on its way, further records for it collect; the next one takes them
all. So a batch is as large as the load makes it, and a lone record waits for nothing.

Rule 1: for one event loop, which never waits for the network. It sends and receives itself: to hand
records to a thread costs more than to write them. What may take long runs in threads: to connect,
to ask who leads, to obtain a producer id, batches that are large or go through Arrow and numba,
and everything with TLS.
Rule 2: one task per leader uses the connections to it, in whatever thread.
Rule 3: results are handed over together, once per request to a broker.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import structlog

from headrace.client.error import BrokerError, ClientError, ConnectionLost
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.metadata import NO_NODE
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import (
    LAST_BY_NAME,
    BatchWriter,
    WrittenBatch,
    produce_request,
    written_batches,
)
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity
from headrace.gateway.rest.produce.leader_connection import LeaderConnection
from headrace.gateway.rest.produce.produce_queue import (
    ROUND_BYTES,
    Delivery,
    ProduceQueue,
    QueuedRecords,
    Sending,
)
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

_REQUEST_TIMEOUT_MS: Final = 5_000
_IDENTITY_TIMEOUT_MS: Final = 10_000
_THREADS: Final = 16
_QUICK_RECORDS: Final = 1_000
_QUICK_BYTES: Final = 1 << 20
"""What the event loop encodes itself, in about 1 ms; only without headers and times."""
_LOOP_ROUND_BYTES: Final = 2 << 20
"""What the event loop sends in one request: it copies them."""

Outcomes = Mapping[TopicPartition, WrittenBatch | ClientError]
T = TypeVar("T")


class RecordWriter:
    """Puts records into partitions. The caller bounds how many bytes wait: it holds their requests.

    Args:
        done: called with the puts that are complete.
    """

    def __init__(
        self,
        settings: ClientSettings,
        done: Callable[[list[Delivery]], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        # The queue tries again itself, so that one partition's trouble delays no other.
        self._settings = replace(
            settings,
            api_timeout_ms=1,
            request_timeout_ms=min(settings.request_timeout_ms, _REQUEST_TIMEOUT_MS),
        )
        self._done = done
        self._loop = loop
        self._queue = ProduceQueue()
        self._leaders: dict[TopicPartition, int] = {}
        self._changed = asyncio.Event()
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._pools: dict[int, ConnectionPool] = {}
        self._connections: dict[int, LeaderConnection] = {}
        self._stopping = False
        self._identifying = asyncio.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest-produce")

    def put(self, rows: Mapping[TopicPartition, QueuedRecords], leaders: Mapping[int, int]) -> None:
        """Write records of one topic.

        Args:
            leaders: by partition, as far as the caller knows; used where the writer knows none.

        Raises:
            ConnectionLost: the proxy is stopping.
        """
        if self._stopping:
            raise ConnectionLost("the proxy is stopping")
        for partition, each in rows.items():
            self._leaders.setdefault(partition, leaders.get(partition.partition, NO_NODE))
            self._queue.add(partition, each)
        self._begin(rows)

    async def stop(self) -> None:
        """Write what waits, then end."""
        self._stopping = True
        self._changed.set()
        while self._serving:
            await asyncio.wait(list(self._serving.values()))
        for each in self._connections.values():
            each.forget()
        for pool in self._pools.values():
            await self._in_thread(pool.close)
        self._threads.shutdown(wait=False)

    def _begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Serve the leaders of these partitions that are not being served."""
        for partition in partitions:
            leader = self._leaders[partition]
            if leader not in self._serving:
                # The task begins after this turn of the loop: with the requests that it brings.
                self._serving[leader] = self._loop.create_task(self._serve(leader))
        self._changed.set()

    async def _serve(self, leader: int) -> None:
        """Send to one leader until nothing waits for it."""
        try:
            while True:
                try:
                    taken = await self._next(leader)
                    if taken is None:
                        return
                    if taken:
                        await self._send(leader, taken)
                except Exception as error:  # a task that ends would leave its puts waiting
                    log.exception("rest_writer_failed")
                    failure = ClientError(f"the writer failed: {error!r}")
                    self._done(self._queue.fail_all(failure))
        finally:
            del self._serving[leader]

    async def _next(self, leader: int) -> list[Sending] | None:
        """Return batches for a leader, none after a pause, or None if nothing waits for it."""
        if self._queue.needs_identity:
            await self._identify()
        mine = [each for each in self._queue.busy() if self._leaders[each] == leader]
        if not mine:
            return None
        now = time.monotonic()
        most_bytes = _LOOP_ROUND_BYTES if self._settings.tls is None else ROUND_BYTES
        taken = self._queue.take(mine, now, time.time_ns() // 1_000_000, most_bytes)
        if not taken:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._queue.seconds_to_wait(mine, now) or 0.05):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return taken

    async def _send(self, leader: int, taken: Sequence[Sending]) -> None:
        outcomes: Outcomes
        try:
            outcomes = await self._write(leader, taken)
        except ClientError as error:
            outcomes = {each.partition: error for each in taken}
        failed = [name for name, each in outcomes.items() if isinstance(each, ClientError)]
        moved = await self._moved(leader, failed) if failed else {}
        finished: list[Delivery] = []
        missing = BrokerError(ErrorCode.unknown_server_error)
        now = time.monotonic()
        for sending in taken:
            outcome = outcomes.get(sending.partition, missing)
            finished += self._queue.finish(sending, outcome, now)
        if moved:
            self._leaders |= moved
            self._begin(moved)
        if finished:
            self._done(finished)

    async def _write(self, leader: int, taken: Sequence[Sending]) -> Outcomes:
        if leader == NO_NODE:
            raise BrokerError(ErrorCode.leader_not_available)
        batches = await self._encoded(taken)
        if self._settings.tls is not None:
            return await self._in_thread(partial(self._write_in_thread, leader, batches))
        connection = self._connections.get(leader)
        if connection is None or not connection.is_open:
            opened = await self._in_thread(partial(self._open, leader))
            connection = self._connections[leader] = LeaderConnection(opened, self._loop)
        timeout_ms = self._settings.request_timeout_ms
        answer = await connection.call(
            ApiKey.PRODUCE,
            produce_request(batches, timeout_ms),
            highest=LAST_BY_NAME,
            wait_ms=timeout_ms,
        )
        return written_batches(answer)

    def _write_in_thread(
        self, leader: int, batches: Mapping[TopicPartition, memoryview]
    ) -> Outcomes:
        connection = self._open(leader)
        return BatchWriter(self._pool(leader)).write_to(connection, batches)

    async def _encoded(self, taken: Sequence[Sending]) -> dict[TopicPartition, memoryview]:
        def encode() -> dict[TopicPartition, memoryview]:
            return {each.partition: each.encoded() for each in taken}

        new = [each for each in taken if each.batch is None]
        if (
            all(each.is_plain for each in new)
            and sum(each.count for each in new) <= _QUICK_RECORDS
            and sum(each.size_bytes for each in new) <= _QUICK_BYTES
        ):
            return encode()
        return await self._in_thread(encode)

    def _open(self, leader: int) -> BrokerConnection:
        """Return a connection to a leader. In a thread."""
        pool = self._pool(leader)
        pool.known_metadata(())  # where the brokers are
        return pool.node(leader)

    def _pool(self, leader: int) -> ConnectionPool:
        pool = self._pools.get(leader)
        if pool is None:
            pool = self._pools[leader] = ConnectionPool(self._settings)
        return pool

    async def _moved(
        self, leader: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        connection = self._connections.get(leader)
        if connection is not None:
            connection.forget()  # the thread may ask there
        return await self._in_thread(partial(self._ask, leader, partitions))

    def _ask(self, leader: int, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return who leads these partitions, if a broker says so. In a thread."""
        by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
        for each in partitions:
            by_topic[each.topic].append(each)
        try:
            metadata = self._pool(leader).metadata(by_topic)
        except ClientError as error:
            log.warning("rest_leaders_unknown", error=repr(error))
            return {}
        return {each: metadata.leader(each) for each in partitions}

    async def _identify(self) -> None:
        """Obtain a producer id. While no broker gives one, everything waits; not for ever."""
        async with self._identifying:
            if not self._queue.needs_identity:
                return
            try:
                identity = await self._in_thread(self._new_identity)
            except ClientError as error:
                log.warning("rest_producer_id_failed", error=repr(error))
                self._done(self._queue.fail_all(error))
            else:
                self._queue.identify(identity or NO_IDENTITY)

    def _new_identity(self) -> ProducerIdentity | None:
        patient = replace(self._settings, api_timeout_ms=_IDENTITY_TIMEOUT_MS)
        with ConnectionPool(patient) as pool:
            return BatchWriter(pool).identity()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, work)
