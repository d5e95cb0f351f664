"""Writes the records of all put requests, in one thread, with one produce request per round.

While a round is on its way, further puts collect; the next round takes them all. So a batch is as
large as the load makes it, and a lone put waits for nothing.

Rule 1: one round is in flight at a time, so the order of puts into a partition is the order of
their offsets.
Rule 2: batches are idempotent. After a failure the outcome of its batch is unknown and its sequence
is spent, so the next round begins with a new producer id.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from headrace.client.error import ClientError, ConnectionLost
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import BatchWriter, WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity
from headrace.gateway.kinesis.record.row import EXPLICIT_HASH_KEY, Row
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.records.column import HEADERS
from headrace.records.encode import encode

_BATCH_BYTES: Final = 900_000
"""Below Kafka's default of max.message.bytes. A larger record has a batch of its own."""

_ROUND_BYTES: Final = 16 << 20
_LARGEST_BATCH: Final = 64 << 20
_API_TIMEOUT_MS: Final = 10_000
_PLAIN: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])
_WITH_HEADERS: Final = _PLAIN.append(pa.field("headers", HEADERS))


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Where rows were written: at consecutive offsets, with one time."""

    base_offset: int
    time_ms: int


@dataclass(slots=True)
class _Job:
    rows: Sequence[Row]
    size_bytes: int
    placed: "Future[PlacedRows]" = field(default_factory=Future)


class ShardWriter:
    """Puts rows into partitions. The caller bounds how many bytes wait: it holds their requests.

    Threads: `put` may be called in any.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = replace(
            settings, api_timeout_ms=min(settings.api_timeout_ms, _API_TIMEOUT_MS)
        )
        self._waiting: dict[TopicPartition, deque[_Job]] = {}
        self._ready = threading.Condition()
        self._stopping = False
        self._identity = NO_IDENTITY
        self._sequences: dict[TopicPartition, int] = {}
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
        """
        futures: list[Future[PlacedRows]] = []
        jobs = _jobs(rows)
        for job in jobs:
            futures += [job.placed] * len(job.rows)
        with self._ready:
            if self._stopping:
                raise ConnectionLost("the gateway is stopping")
            self._waiting.setdefault(partition, deque()).extend(jobs)
            self._ready.notify()
        return futures

    def _run(self) -> None:
        with ConnectionPool(self._settings) as pool:
            writer = BatchWriter(pool)
            while True:
                with self._ready:
                    self._ready.wait_for(lambda: self._waiting or self._stopping)
                    if not self._waiting:
                        return
                    taken = self._take_round()
                self._write(writer, taken)

    def _take_round(self) -> dict[TopicPartition, list[_Job]]:
        """Take at most one batch of each partition. Partitions that are left go first next time."""
        taken: dict[TopicPartition, list[_Job]] = {}
        total = 0
        for partition in list(self._waiting):
            if total >= _ROUND_BYTES:
                break
            queue = self._waiting.pop(partition)
            jobs = [queue.popleft()]
            size = jobs[0].size_bytes
            while queue and size + queue[0].size_bytes <= _BATCH_BYTES:
                jobs.append(queue.popleft())
                size += jobs[-1].size_bytes
            if queue:
                self._waiting[partition] = queue
            taken[partition] = jobs
            total += size
        return taken

    def _write(self, writer: BatchWriter, taken: dict[TopicPartition, list[_Job]]) -> None:
        now_ms = time.time_ns() // 1_000_000
        try:
            identity = self._identify(writer)
            batches = {
                partition: self._encode(partition, jobs, identity, now_ms)
                for partition, jobs in taken.items()
            }
            outcomes = writer.write(batches)
        except HeadraceError as error:
            failure = error if isinstance(error, ClientError) else ClientError(str(error))
            outcomes = dict.fromkeys(taken, failure)
        for partition, jobs in taken.items():
            self._finish(partition, jobs, outcomes[partition], now_ms)

    def _finish(
        self,
        partition: TopicPartition,
        jobs: list[_Job],
        outcome: WrittenBatch | ClientError,
        now_ms: int,
    ) -> None:
        if isinstance(outcome, ClientError):
            self._identity = NO_IDENTITY
            for job in jobs:
                job.placed.set_exception(outcome)
            return
        offset = outcome.base_offset
        stamped = outcome.log_append_time_ms
        for job in jobs:
            job.placed.set_result(PlacedRows(offset, stamped if stamped >= 0 else now_ms))
            offset += len(job.rows)

    def _identify(self, writer: BatchWriter) -> ProducerIdentity:
        if self._identity == NO_IDENTITY:
            self._sequences.clear()
            self._identity = writer.identity() or NO_IDENTITY
        return self._identity

    def _encode(
        self, partition: TopicPartition, jobs: list[_Job], identity: ProducerIdentity, now_ms: int
    ) -> memoryview:
        rows = [row for job in jobs for row in job.rows]
        columns: dict[str, list[Any]] = {
            "key": [row.key for row in rows],
            "value": [row.value for row in rows],
        }
        schema = _PLAIN
        if any(row.explicit_hash_key is not None for row in rows):
            schema = _WITH_HEADERS
            columns["headers"] = [_headers(row) for row in rows]
        sequence = -1 if identity == NO_IDENTITY else self._sequences.get(partition, 0)
        encoded = encode(
            pa.record_batch(columns, schema=schema),
            timestamp_ms=now_ms,
            max_batch_bytes=_LARGEST_BATCH,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
        )
        self._sequences[partition] = encoded.next_sequence
        [batch] = encoded.batches
        return batch


def _headers(row: Row) -> list[dict[str, object]]:
    if row.explicit_hash_key is None:
        return []
    return [{"key": EXPLICIT_HASH_KEY, "value": row.explicit_hash_key.encode()}]


def _jobs(rows: Sequence[Row]) -> list[_Job]:
    """Cut rows into jobs that fit into a batch; a row that does not is alone."""
    jobs: list[_Job] = []
    start = size = 0
    for at, row in enumerate(rows):
        if at > start and size + row.size_bytes > _BATCH_BYTES:
            jobs.append(_Job(rows[start:at], size))
            start, size = at, 0
        size += row.size_bytes
    if rows:
        jobs.append(_Job(rows[start:], size))
    return jobs
