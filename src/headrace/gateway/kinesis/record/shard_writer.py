"""Writes the records of all put requests, with one produce request per leader at a time.

While a request to a leader is on its way, further puts for it collect; the next one takes them all.
So a batch is as large as the load makes it, and a lone put waits for nothing. A leader that is slow
holds up its own partitions only.

Rule 1: one thread hands out batches and never waits for the network. Requests, and questions who
leads, run in `_THREADS` others.
Rule 2: each leader has its own connections, used by one thread at a time.
Rule 3: permits of rows are asked for once more when a connection is there, right before the
request: to open one may take seconds.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from headrace.client.error import BrokerError, ClientError, ConnectionLost
from headrace.client.network.metadata import NO_NODE
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import BatchWriter, WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY
from headrace.gateway.kinesis.record.leader_table import LeaderTable
from headrace.gateway.kinesis.record.permit import Permit
from headrace.gateway.kinesis.record.placed_rows import PlacedRows
from headrace.gateway.kinesis.record.put_queue import PAUSE_SECONDS, RETRY_SECONDS, PutQueue
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

_REQUEST_TIMEOUT_MS: Final = 5_000
_THREADS: Final = 16
_ASKING: Final = "metadata"
_IDENTIFYING: Final = "identity"

Outcomes = Mapping[ShardLog, WrittenBatch | ClientError]


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
        self._leaders = LeaderTable()
        self._ready = threading.Condition()
        self._busy: set[int | str] = set()
        self._pools: dict[int | str, ConnectionPool] = {}
        self._stopping = False
        self._workers = ThreadPoolExecutor(_THREADS, thread_name_prefix="kinesis-send")
        self._thread = threading.Thread(target=self._run, name="kinesis-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, then end."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        self._thread.join(timeout=30)
        self._workers.shutdown(wait=True, cancel_futures=True)
        for each in self._pools.values():
            each.close()

    def wake(self) -> None:
        """Ask for the permits of rows that wait again."""
        with self._ready:
            self._ready.notify()

    def put(
        self,
        shard: ShardLog,
        rows: Sequence[Row],
        most_bytes: int | None = None,
        permit: Permit | None = None,
    ) -> "list[Future[PlacedRows]]":
        """Write rows to a partition.

        Args:
            most_bytes: of a batch of the topic, if it is known.
            permit: says whether they may be written as they are; asked in other threads, it must
                neither wait nor raise.

        Returns:
            One future per row. It, or the row's place in its result, fails with `PermitEnded` if
            the row was not and may not be written, and with another `ClientError` if it may be.

        Raises:
            ConnectionLost: the gateway is stopping.
        """
        with self._ready:
            if self._stopping:
                raise ConnectionLost("the gateway is stopping")
            futures = self._queue.add(shard, rows, most_bytes, permit)
            self._ready.notify()
        return futures

    def _run(self) -> None:
        while True:
            try:
                with self._ready:
                    if self._stopping and self._queue.is_empty:
                        return
                    if not self._hand_out():
                        self._ready.wait(self._queue.seconds_to_wait(time.monotonic()))
            except Exception as error:  # a thread that ends would leave all puts waiting
                log.exception("kinesis_writer_failed")
                with self._ready:
                    self._queue.fail_all(ClientError(f"the writer failed: {error!r}"))

    def _hand_out(self) -> bool:
        """Begin what can be begun; return whether that was anything."""
        if self._queue.needs_identity:
            return not self._queue.is_empty and self._begin(_IDENTIFYING, self._identify)
        unknown = [each for each in self._queue.waiting() if self._leaders.leader(each) is None]
        begun = bool(unknown) and self._begin(_ASKING, partial(self._ask, _ASKING, unknown))
        batches = self._queue.take(time.monotonic(), time.time_ns() // 1_000_000, self._may_go)
        by_leader: dict[int, dict[ShardLog, memoryview]] = defaultdict(dict)
        for shard, batch in batches.items():
            leader = self._leaders.leader(shard)
            assert leader is not None
            by_leader[leader][shard] = batch
        for leader, led in by_leader.items():
            self._begin(leader, partial(self._send, leader, led))
        return begun or bool(by_leader)

    def _may_go(self, shard: ShardLog) -> bool:
        leader = self._leaders.leader(shard)
        return leader is not None and leader not in self._busy

    def _begin(self, name: int | str, work: Callable[[], None]) -> bool:
        """Run work in another thread, unless its kind runs already."""
        if name in self._busy:
            return False
        self._busy.add(name)

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("kinesis_writer_failed", work=str(name))
            finally:
                with self._ready:
                    self._busy.discard(name)
                    self._ready.notify()

        self._workers.submit(run)
        return True

    def _pool(self, name: int | str) -> ConnectionPool:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = ConnectionPool(self._settings)
        return pool

    def _ask(self, name: int | str, shards: Sequence[ShardLog]) -> None:
        """Ask who leads these partitions."""
        try:
            metadata = self._pool(name).metadata({each.partition.topic for each in shards})
        except Exception as error:  # noqa: BLE001 - their batches fail, and ask again
            log.warning("kinesis_leaders_unknown", error=repr(error))
            self._leaders.learn(shards, None)
        else:
            self._leaders.learn(shards, metadata)

    def _send(self, leader: int, batches: dict[ShardLog, memoryview]) -> None:
        """Send batches to their leader, and note what became of each."""
        outcomes: dict[ShardLog, WrittenBatch | ClientError] = {}
        for group in _groups(batches):
            try:
                outcomes |= self._write(leader, group)
            except ClientError as error:
                outcomes |= dict.fromkeys(group, error)
            except Exception as error:
                log.exception("kinesis_put_failed", leader=leader)
                outcomes |= dict.fromkeys(group, ClientError(f"the writer failed: {error!r}"))
        failed = [each for each, outcome in outcomes.items() if isinstance(outcome, ClientError)]
        if failed:
            self._ask(leader, failed)
        with self._ready:
            now = time.monotonic()
            for shard, outcome in outcomes.items():
                self._queue.finish(shard, outcome, now)

    def _write(self, leader: int, batches: Mapping[ShardLog, memoryview]) -> Outcomes:
        if leader == NO_NODE:
            raise BrokerError(ErrorCode.leader_not_available)
        if any(map(self._leaders.is_gone, batches)):
            raise BrokerError(ErrorCode.unknown_topic_id)
        pool = self._pool(leader)
        pool.known_metadata(())  # where the brokers are
        ids: dict[str, UUID] = {
            each.partition.topic: each.topic_id for each in batches if each.topic_id is not None
        }
        connection = pool.node(leader)
        with self._ready:
            leaving = {each: batches[each] for each in batches if self._queue.may_leave(each)}
        outcomes: dict[ShardLog, WrittenBatch | ClientError] = {}
        if leaving:
            by_partition = {each.partition: batch for each, batch in leaving.items()}
            named = len(ids) == len({each.partition.topic for each in batches})
            found = BatchWriter(pool).write_to(connection, by_partition, ids if named else {})
            missing = BrokerError(ErrorCode.unknown_server_error)
            outcomes |= {each: found.get(each.partition, missing) for each in leaving}
        held = ClientError("the batch waits for a permit")
        return {**dict.fromkeys(batches, held), **outcomes}

    def _identify(self) -> None:
        """Obtain a producer id. If no broker gives one in time, every put fails."""
        writer = BatchWriter(self._pool(_IDENTIFYING))
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                identity = writer.identity()
            except Exception as error:  # noqa: BLE001 - whatever it is, the puts must hear of it
                if time.monotonic() > deadline or self._stopping:
                    with self._ready:
                        self._queue.fail_all(_client_error(error))
                    return
                time.sleep(PAUSE_SECONDS)
            else:
                with self._ready:
                    self._queue.identify(identity or NO_IDENTITY)
                return


def _groups(batches: Mapping[ShardLog, memoryview]) -> list[dict[ShardLog, memoryview]]:
    """Divide batches so that a request has one topic per name, and all of them ids or none."""
    groups: list[dict[ShardLog, memoryview]] = []
    for shard, batch in batches.items():
        for group in groups:
            if all(_agree(shard, each) for each in group):
                group[shard] = batch
                break
        else:
            groups.append({shard: batch})
    return groups


def _agree(one: ShardLog, other: ShardLog) -> bool:
    if one.partition.topic == other.partition.topic:
        return one.topic_id == other.topic_id
    return (one.topic_id is None) == (other.topic_id is None)


def _client_error(error: Exception) -> ClientError:
    return error if isinstance(error, ClientError) else ClientError(repr(error))
