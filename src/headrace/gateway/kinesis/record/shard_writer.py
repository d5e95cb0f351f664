"""Writes the records of all put requests, in one thread, with one produce request per round.

While a round is on its way, further puts collect; the next round takes them all. So a batch is as
large as the load makes it, and a lone put waits for nothing.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Final

from headrace.client.error import ClientError, ConnectionLost
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import BatchWriter, WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY
from headrace.gateway.kinesis.record.put_queue import (
    PAUSE_SECONDS,
    RETRY_SECONDS,
    PlacedRows,
    PutQueue,
)
from headrace.gateway.kinesis.record.row import Row
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

_REQUEST_TIMEOUT_MS: Final = 5_000
"""One thread writes for all: a broker that hangs must not stop the others for long."""


class ShardWriter:
    """Puts rows into partitions. The caller bounds how many bytes wait: it holds their requests.

    Threads: `put` may be called in any.
    """

    def __init__(self, settings: ClientSettings) -> None:
        # The queue tries again itself, so that one partition's trouble delays no other.
        self._settings = replace(
            settings,
            api_timeout_ms=1,
            request_timeout_ms=min(settings.request_timeout_ms, _REQUEST_TIMEOUT_MS),
        )
        self._queue = PutQueue()
        self._ready = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="kinesis-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, then end."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        self._thread.join(timeout=30)

    def put(self, partition: TopicPartition, rows: Sequence[Row]) -> "list[Future[PlacedRows]]":
        """Write rows to a partition.

        Returns:
            One future per row. It fails with a `ClientError`; the row may be written then.

        Raises:
            ConnectionLost: the gateway is stopping.
        """
        with self._ready:
            if self._stopping:
                raise ConnectionLost("the gateway is stopping")
            futures = self._queue.add(partition, rows)
            self._ready.notify()
        return futures

    def _run(self) -> None:
        with ConnectionPool(self._settings) as pool:
            writer = BatchWriter(pool)
            while True:
                with self._ready:
                    while (seconds := self._queue.seconds_to_wait(time.monotonic())) != 0:
                        if self._stopping and self._queue.is_empty:
                            return
                        self._ready.wait(seconds)
                self._round(pool, writer)

    def _round(self, pool: ConnectionPool, writer: BatchWriter) -> None:
        if self._queue.needs_identity and not self._identify(writer):
            return
        with self._ready:
            batches = self._queue.take(time.monotonic(), time.time_ns() // 1_000_000)
        try:
            outcomes = writer.write(batches)
        except HeadraceError as error:
            outcomes = dict.fromkeys(batches, _client_error(error))
        if any(isinstance(each, ClientError) for each in outcomes.values()):
            self._find_leaders(pool, outcomes)
        with self._ready:
            now = time.monotonic()
            for partition, outcome in outcomes.items():
                self._queue.finish(partition, outcome, now)

    def _identify(self, writer: BatchWriter) -> bool:
        """Obtain a producer id. If no broker gives one in time, every put fails."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                identity = writer.identity()
            except HeadraceError as error:
                if time.monotonic() > deadline or self._stopping:
                    with self._ready:
                        self._queue.fail_all(_client_error(error))
                    return False
                time.sleep(PAUSE_SECONDS)
            else:
                with self._ready:
                    self._queue.identify(identity or NO_IDENTITY)
                return True

    def _find_leaders(
        self, pool: ConnectionPool, outcomes: dict[TopicPartition, WrittenBatch | ClientError]
    ) -> None:
        """Ask where the partitions that failed have gone, before they are tried again."""
        failed = [each for each, outcome in outcomes.items() if isinstance(outcome, ClientError)]
        try:
            pool.metadata({each.topic for each in failed})
        except HeadraceError:
            return  # the next round asks again


def _client_error(error: HeadraceError) -> ClientError:
    return error if isinstance(error, ClientError) else ClientError(str(error))
