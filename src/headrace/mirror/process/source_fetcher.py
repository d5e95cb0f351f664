"""Fetches from the source in a thread of its own, a little ahead of what is written.

Rule 1: what is held is bounded: one response that waits, one that is being fetched.
Rule 2: a partition whose log does not fit its position is said and left, never read on elsewhere.
        Only what retention removed before it was copied is passed over, and counted.
Rule 3: an error of the connection ends the thread; the flow starts another one later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Final

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.settings import ClientSettings
from headrace.mirror.process.position import Position
from headrace.mirror.process.source_batches import SourceBatches, source_batches
from headrace.mirror.process.source_state import (
    Stopped,
    StopReason,
    check_epoch,
    out_of_range,
    recreated,
)
from headrace.model.error import HeadraceError, PeerError
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

RESPONSE_BYTES: Final = 4 << 20
"""How much one round of fetches may hold, over all leaders."""

# A response should have batches of several partitions: a request to the target has one of each.
_PARTITION_BYTES: Final = 1 << 20

# A round ends when the last leader has answered. With one leader it may wait for records as long as
# it likes; with several, the records of one would wait for the others.
_WAIT_MS: Final = 500
_SHORTEST_WAIT_MS: Final = 4
_LONGEST_WAIT_MS: Final = 64
_QUEUE_SECONDS: Final = 0.2

_DENIED: Final = frozenset({ErrorCode.topic_authorization_failed})
_GONE: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})


@dataclass(slots=True)
class FetchRound:
    """What one round of fetches brought.

    Attributes:
        lost: how many offsets retention removed before they were copied, by partition.
        stopped: partitions that are not read further.
    """

    batches: list[SourceBatches] = field(default_factory=list)
    lost: dict[TopicPartition, int] = field(default_factory=dict)
    stopped: dict[TopicPartition, Stopped] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.batches or self.lost or self.stopped)


class SourceFetcher:
    """Reads partitions from their positions on, committed records only.

    Example:
        with SourceFetcher(settings, {partition: Position(0)}, leaders=1) as fetcher:
            round = fetcher.next(timeout_seconds=1)
    """

    def __init__(
        self,
        settings: ClientSettings,
        positions: Mapping[TopicPartition, Position],
        *,
        leaders: int,
    ) -> None:
        response_bytes = min(settings.fetch_max_bytes, RESPONSE_BYTES // max(1, leaders))
        self._pool = ConnectionPool(replace(settings, fetch_max_bytes=response_bytes))
        self._positions = dict(positions)
        self._reader = BatchReader(
            self._pool,
            {partition: each.offset for partition, each in positions.items()},
            read_committed=True,
            partition_max_bytes=min(settings.partition_max_bytes, _PARTITION_BYTES, response_bytes),
        )
        self._several = leaders > 1
        self._wait_ms = _SHORTEST_WAIT_MS
        self._queue: Queue[FetchRound | BaseException] = Queue(maxsize=1)
        self._stop = Event()
        self._thread = Thread(target=self._run, name="mirror-fetch", daemon=True)

    def next(self, timeout_seconds: float) -> FetchRound | None:
        """Return the next round; None when there was none in time.

        Raises:
            ClientError: the source cannot be read.
        """
        try:
            found = self._queue.get(timeout=timeout_seconds) if timeout_seconds else self._now()
        except Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    def _now(self) -> FetchRound | BaseException:
        return self._queue.get_nowait()

    def __enter__(self) -> "SourceFetcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    # -- in the thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self._reader.positions:
                found = self._fetch()
                if found:
                    self._put(found)
        except HeadraceError as error:
            self._put(error)
        except BaseException as error:  # noqa: BLE001 - a thread's error belongs to its flow
            self._put(error)
        finally:
            self._pool.close()

    def _put(self, found: "FetchRound | BaseException") -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(found, timeout=_QUEUE_SECONDS)
            except Full:
                continue
            return

    def _fetch(self) -> FetchRound:
        found = FetchRound()
        for fetched in self._reader.poll(self._next_wait_ms()):
            if fetched.error is not None:
                self._refused(fetched.partition, fetched.error, found)
            elif len(fetched.data):
                self._received(fetched, found)
        for partition in found.stopped:
            self._reader.positions.pop(partition, None)
        if found.batches:
            self._wait_ms = _SHORTEST_WAIT_MS
        return found

    def _next_wait_ms(self) -> int:
        if not self._several:
            return _WAIT_MS
        wait_ms, self._wait_ms = self._wait_ms, min(2 * self._wait_ms, _LONGEST_WAIT_MS)
        return wait_ms

    def _received(self, fetched: FetchedBatches, found: FetchRound) -> None:
        partition = fetched.partition
        position = self._positions[partition]
        problem = recreated(partition, position.topic_id, fetched.topic_id)
        if problem is not None:
            found.stopped[partition] = problem
            return
        try:
            batches = source_batches(fetched)
        except PeerError as error:
            found.stopped[partition] = Stopped(StopReason.DAMAGED, f"{partition}: {error}")
            return
        if batches.first_epoch > position.leader_epoch:
            problem = check_epoch(self._pool, partition, position)
            if problem is not None:
                found.stopped[partition] = problem
                return
        self._advance(
            partition,
            Position(
                batches.next_offset, batches.last_epoch, position.topic_id or fetched.topic_id
            ),
        )
        if batches.next_offset > batches.offset:
            found.batches.append(batches)

    def _advance(self, partition: TopicPartition, position: Position) -> None:
        self._positions[partition] = position
        self._reader.positions[partition] = position.offset

    def _refused(self, partition: TopicPartition, error: BrokerError, found: FetchRound) -> None:
        position = self._positions[partition]
        if error.code is ErrorCode.offset_out_of_range:
            where = self._replaced(partition, position) or out_of_range(
                self._pool, partition, position.offset
            )
            if isinstance(where, Stopped):
                found.stopped[partition] = where
            elif where.start > position.offset:
                found.lost[partition] = where.start - position.offset
                # Of the last record before, which is gone, nothing is known.
                self._advance(partition, replace(position, offset=where.start, leader_epoch=-1))
        elif error.code in _DENIED:
            found.stopped[partition] = Stopped(StopReason.DENIED, f"{partition}: {error}")
        elif error.code in _GONE:
            found.stopped[partition] = Stopped(
                StopReason.GONE, f"{partition}: the source has this partition no more"
            )
        else:
            raise ClientError(f"cannot read {partition} at the source: {error}") from error

    def _replaced(self, partition: TopicPartition, position: Position) -> Stopped | None:
        """Return that the topic is another one now: a new log is nearly always too short."""
        metadata = self._pool.metadata([partition.topic])
        return recreated(partition, position.topic_id, metadata.topic_id(partition.topic))
