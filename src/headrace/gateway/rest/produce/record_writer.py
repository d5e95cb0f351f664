"""Writes the records of all requests, with one produce request per leader at a time.

While a request to a leader is on its way, further records for it collect; the next one takes them
all. So a batch is as large as the load makes it, and a lone record waits for nothing.

Rule 1: `put` never waits for the network. Requests, and questions who leads, run in threads: one
per leader at a time, with connections of its own.
Rule 2: results go to the event loop together, once per request to a broker.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import structlog

from headrace.client.error import BrokerError, ClientError, ConnectionLost
from headrace.client.network.metadata import NO_NODE
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import BatchWriter, WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY
from headrace.gateway.rest.produce.produce_queue import (
    Delivery,
    ProduceQueue,
    QueuedRecord,
    Sending,
)
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

_REQUEST_TIMEOUT_MS: Final = 5_000
_IDENTITY_TIMEOUT_MS: Final = 10_000
_THREADS: Final = 16


class RecordWriter:
    """Puts records into partitions. The caller bounds how many bytes wait: it holds their requests.

    Threads: `put` may be called in any.

    Args:
        done: called in other threads with the puts that are complete; it must not wait.
    """

    def __init__(self, settings: ClientSettings, done: Callable[[list[Delivery]], None]) -> None:
        # The queue tries again itself, so that one partition's trouble delays no other.
        self._settings = replace(
            settings,
            api_timeout_ms=1,
            request_timeout_ms=min(settings.request_timeout_ms, _REQUEST_TIMEOUT_MS),
        )
        self._done = done
        self._queue = ProduceQueue()
        self._leaders: dict[TopicPartition, int] = {}
        self._ready = threading.Condition()
        self._serving: set[int] = set()
        self._pools: dict[int, ConnectionPool] = {}
        self._stopping = False
        self._identifying = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest-produce")

    def put(
        self, rows: Mapping[TopicPartition, Sequence[QueuedRecord]], leaders: Mapping[int, int]
    ) -> None:
        """Write records of one topic.

        Args:
            leaders: by partition, as far as the caller knows; used where the writer knows none.

        Raises:
            ConnectionLost: the proxy is stopping.
        """
        with self._ready:
            if self._stopping:
                raise ConnectionLost("the proxy is stopping")
            for partition, each in rows.items():
                self._leaders.setdefault(partition, leaders.get(partition.partition, NO_NODE))
                self._queue.add(partition, each)
            self._begin(rows)

    def stop(self) -> None:
        """Write what waits, then end."""
        with self._ready:
            self._stopping = True
            self._ready.notify_all()
        self._threads.shutdown(wait=True)
        for each in self._pools.values():
            each.close()

    def _begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Serve the leaders of these partitions that are not being served; with the lock."""
        for leader in {self._leaders[each] for each in partitions}:
            if leader not in self._serving:
                self._serving.add(leader)
                self._threads.submit(self._serve, leader)
        self._ready.notify_all()

    def _serve(self, leader: int) -> None:
        """Send to one leader until nothing waits for it."""
        while True:
            try:
                taken = self._next(leader)
                if taken is None:
                    return
                if taken:
                    self._send(leader, taken)
            except Exception as error:  # a thread that ends would leave its puts waiting
                log.exception("rest_writer_failed")
                with self._ready:
                    finished = self._queue.fail_all(ClientError(f"the writer failed: {error!r}"))
                self._done(finished)

    def _next(self, leader: int) -> list[Sending] | None:
        """Return batches for a leader, none after a pause, or None if nothing waits for it."""
        if self._queue.needs_identity:
            self._identify()
        with self._ready:
            mine = [each for each in self._queue.busy() if self._leaders[each] == leader]
            if not mine:
                self._serving.discard(leader)
                return None
            now = time.monotonic()
            taken = self._queue.take(mine, now, time.time_ns() // 1_000_000)
            if not taken:
                self._ready.wait(self._queue.seconds_to_wait(mine, now) or 0.05)
            return taken

    def _send(self, leader: int, taken: Sequence[Sending]) -> None:
        outcomes: dict[TopicPartition, WrittenBatch | ClientError]
        try:
            outcomes = dict(self._write(leader, taken))
        except ClientError as error:
            outcomes = {each.partition: error for each in taken}
        failed = [name for name, each in outcomes.items() if isinstance(each, ClientError)]
        moved = self._ask(leader, failed) if failed else {}
        finished: list[Delivery] = []
        missing = BrokerError(ErrorCode.unknown_server_error)
        with self._ready:
            now = time.monotonic()
            for sending in taken:
                outcome = outcomes.get(sending.partition, missing)
                finished += self._queue.finish(sending, outcome, now)
            if moved:
                self._leaders |= moved
                self._begin(moved)
        if finished:
            self._done(finished)

    def _write(
        self, leader: int, taken: Sequence[Sending]
    ) -> Mapping[TopicPartition, WrittenBatch | ClientError]:
        if leader == NO_NODE:
            raise BrokerError(ErrorCode.leader_not_available)
        batches = {each.partition: each.encoded() for each in taken}
        pool = self._pool(leader)
        pool.known_metadata(())  # where the brokers are
        return BatchWriter(pool).write_to(pool.node(leader), batches)

    def _pool(self, leader: int) -> ConnectionPool:
        pool = self._pools.get(leader)
        if pool is None:
            pool = self._pools[leader] = ConnectionPool(self._settings)
        return pool

    def _ask(self, leader: int, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return who leads these partitions, if a broker says so."""
        by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
        for each in partitions:
            by_topic[each.topic].append(each)
        try:
            metadata = self._pool(leader).metadata(by_topic)
        except ClientError as error:
            log.warning("rest_leaders_unknown", error=repr(error))
            return {}
        return {each: metadata.leader(each) for each in partitions}

    def _identify(self) -> None:
        """Obtain a producer id. While no broker gives one, everything waits; not for ever."""
        with self._identifying:
            if not self._queue.needs_identity:
                return
            patient = replace(self._settings, api_timeout_ms=_IDENTITY_TIMEOUT_MS)
            try:
                with ConnectionPool(patient) as pool:
                    identity = BatchWriter(pool).identity()
            except ClientError as error:
                log.warning("rest_producer_id_failed", error=repr(error))
                with self._ready:
                    finished = self._queue.fail_all(error)
                self._done(finished)
            else:
                with self._ready:
                    self._queue.identify(identity or NO_IDENTITY)
