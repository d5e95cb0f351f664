"""Rows that wait for their partitions, batches on their way, and what an outcome means.

Pure: it knows no socket and no clock. `shard_writer` sends what it hands out.

Rule 1: one batch of a partition is on its way at a time, so the order of puts into a partition is
the order of their offsets. Batches of different partitions may come back in any order.
Rule 2: a batch that failed is sent again as it is, with the same producer id and sequence, so that
a broker that has it already appends it only once. Meanwhile only its own partition waits.
Rule 3: when a batch is given up, whether it was written is unknown and its sequence is spent. Later
batches of its partition begin at sequence 0 of the next epoch, as KIP-360 allows without asking a
broker: other partitions notice nothing, and the old batch is refused if it comes late. What waits
behind it fails as well: no put may wait longer than the request that holds its bytes.
Rule 4: a batch that is too large for its topic is divided. One row that is too large by itself
fails alone: what waits behind it is not at fault.
Rule 5: rows may have a permit, which is asked for whenever they are about to be sent, again too.
They wait while it is not known. When it has ended they fail: with `PermitEnded` if they were never
sent.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.retry import STALE_LEADER
from headrace.client.write.batch_writer import WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity
from headrace.gateway.kinesis.record.permit import Permit, PermitEnded, verdict
from headrace.gateway.kinesis.record.placed_rows import PlacedRows, PlacingRows
from headrace.gateway.kinesis.record.row import EXPLICIT_HASH_KEY, Row, ShardLog
from headrace.records.column import HEADERS
from headrace.records.encode import encode
from headrace.wire.error_code import ErrorCode

RETRY_SECONDS: Final = 30.0
"""How long a batch is sent again before its puts fail; boto3 waits for a minute by default."""

PAUSE_SECONDS: Final = 0.1
_HELD_SECONDS: Final = 0.5
"""How often at least a permit is asked for; its owner also says when it may have changed."""

_BATCH_BYTES: Final = 900_000
"""Below Kafka's default of max.message.bytes. A larger record has a batch of its own."""

_LIMIT_SECONDS: Final = 60.0
"""How long a limit that a refusal taught is kept: the topic's configuration may change."""

_TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
_ROUND_BYTES: Final = 16 << 20
_LARGEST_BATCH: Final = 64 << 20
_MAY_PASS: Final = STALE_LEADER | {
    ErrorCode.unknown_topic_or_partition,  # a new partition, which not all brokers know yet
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
}
_PLAIN: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])
_WITH_HEADERS: Final = _PLAIN.append(pa.field("headers", HEADERS))


@dataclass(slots=True)
class _Job:
    """Rows of one put that go into one batch. `start`: of the first one among the put's rows."""

    rows: Sequence[Row]
    size_bytes: int
    placing: PlacingRows
    start: int
    most_bytes: int
    permit: Permit | None = None

    def finish(self, outcome: PlacedRows | ClientError) -> None:
        self.placing.finish(self.start, len(self.rows), outcome)


class _Place(NamedTuple):
    """What the next batch of a partition begins with."""

    identity: ProducerIdentity
    sequence: int = 0


class _LearnedLimit(NamedTuple):
    most_bytes: int
    until: float


@dataclass(slots=True)
class _Sending:
    """One batch of one partition, from its first try to its outcome.

    Attributes:
        is_sent: whether a broker may have it.
    """

    jobs: list[_Job]
    batch: memoryview
    time_ms: int
    deadline: float
    not_before: float
    on_way: bool = True
    is_sent: bool = False

    @property
    def verdict(self) -> bool | None:
        return verdict(job.permit for job in self.jobs)


class PutQueue:
    """The puts of one gateway.

    Example:
        futures = queue.add(partition, rows)
        batches = queue.take(now, now_ms)                  # send them, then
        queue.finish(partition, outcome, now)              # for each of them
    """

    def __init__(self) -> None:
        self._waiting: dict[ShardLog, deque[_Job]] = {}
        self._sending: dict[ShardLog, _Sending] = {}
        self._identity = NO_IDENTITY
        self._is_identified = False
        self._places: dict[ShardLog, _Place] = {}
        self._limits: dict[str, _LearnedLimit] = {}
        self._is_held = False

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._sending

    @property
    def needs_identity(self) -> bool:
        """Whether the next `take` should come with a new producer id."""
        return not self._is_identified

    def add(
        self,
        partition: ShardLog,
        rows: Sequence[Row],
        most_bytes: int | None = None,
        permit: Permit | None = None,
    ) -> "list[Future[PlacedRows]]":
        """Add rows; return one future per row. Consecutive rows share a future.

        Args:
            most_bytes: of a batch of this topic, if it is known.
            permit: without it they may always be sent.
        """
        futures: list[Future[PlacedRows]] = []
        most_bytes = _BATCH_BYTES if most_bytes is None else min(most_bytes, _BATCH_BYTES)
        for piece, size, _ in _pieces(rows, most_bytes):
            placing = PlacingRows(len(piece))
            job = _Job(piece, size, placing, 0, most_bytes, permit)
            futures += [placing.placed] * len(piece)
            self._waiting.setdefault(partition, deque()).append(job)
        return futures

    def identify(self, identity: ProducerIdentity) -> None:
        """Continue with a new producer id, or with `NO_IDENTITY` if the brokers have none."""
        self._identity = identity
        self._is_identified = True
        self._places.clear()

    def waiting(self) -> list[ShardLog]:
        """Return the partitions that have something to be sent, now or after a pause."""
        again = [log for log, each in self._sending.items() if not each.on_way]
        return again + [log for log in self._waiting if log not in self._sending]

    def seconds_to_wait(self, now: float) -> float | None:
        """Return when to look again; None if nothing is to be sent later."""
        pauses = [each.not_before - now for each in self._sending.values() if not each.on_way]
        if self._is_held:
            pauses.append(_HELD_SECONDS)
        return min((pause for pause in pauses if pause > 0), default=None)

    def take(
        self, now: float, now_ms: int, may_go: Callable[[ShardLog], bool] = lambda _: True
    ) -> dict[ShardLog, memoryview]:
        """Return at most one batch of each partition: those to send again, then new ones.

        Args:
            may_go: whether a batch of this partition can be sent now.
        """
        taken: dict[ShardLog, memoryview] = {}
        self._is_held = False
        for log, each in list(self._sending.items()):
            if each.on_way or each.not_before > now or not may_go(log):
                continue
            if self._permits_again(log, each):
                each.on_way = True
                taken[log] = each.batch
        total = sum(map(len, taken.values()))
        for log in list(self._waiting):
            if total >= _ROUND_BYTES or self.needs_identity:
                break
            if log in self._sending or not may_go(log) or not self._permits_next(log):
                continue
            jobs = self._take_jobs(log, now)
            batch = self._encode(log, jobs, now_ms)
            self._sending[log] = _Sending(jobs, batch, now_ms, now + RETRY_SECONDS, now)
            taken[log] = batch
            total += len(batch)
        return taken

    def finish(self, partition: ShardLog, outcome: WrittenBatch | ClientError, now: float) -> None:
        """Note what became of a batch that `take` returned."""
        sending = self._sending.get(partition)
        if sending is None:  # `fail_all` has given it up
            return
        sending.on_way = False
        if not isinstance(outcome, ClientError):
            del self._sending[partition]
            offset = outcome.base_offset
            stamped = outcome.log_append_time_ms
            time_ms = stamped if stamped >= 0 else sending.time_ms
            for job in sending.jobs:
                job.finish(PlacedRows(offset, time_ms))
                offset += len(job.rows)
        elif isinstance(outcome, BrokerError) and outcome.code in _TOO_LARGE:
            del self._sending[partition]
            self._begin_epoch(partition)
            self._divide(partition, sending, outcome, now)
        elif _may_pass(outcome) and now < sending.deadline:
            sending.not_before = now + PAUSE_SECONDS
        else:
            del self._sending[partition]
            self._begin_epoch(partition)
            for job in (*sending.jobs, *self._waiting.pop(partition, ())):
                job.finish(outcome)

    def may_leave(self, partition: ShardLog) -> bool:
        """Return whether a batch that `take` returned may still be sent, and note that it is."""
        sending = self._sending.get(partition)
        if sending is None or sending.verdict is not True:
            return False
        sending.is_sent = True
        return True

    def fail_all(self, error: ClientError) -> None:
        """Give up everything."""
        jobs = [job for queue in self._waiting.values() for job in queue]
        jobs += [job for each in self._sending.values() for job in each.jobs]
        self._waiting.clear()
        self._sending.clear()
        self._is_identified = False  # batches may be on their way
        for job in jobs:
            job.finish(error)

    def _permits_again(self, partition: ShardLog, sending: _Sending) -> bool:
        """Return whether a batch may be sent again; give it up if it never may."""
        found = sending.verdict
        self._is_held |= found is None
        if found is False:
            del self._sending[partition]
            self._begin_epoch(partition)
            unknown = ClientError("the permit of a batch ended while it was to be sent again")
            for job in sending.jobs:
                job.finish(unknown if sending.is_sent else PermitEnded())
        return found is True

    def _permits_next(self, partition: ShardLog) -> bool:
        """Return whether the next rows may be sent; give up those that never may."""
        queue = self._waiting[partition]
        while queue:
            found = verdict([queue[0].permit])
            if found is not False:
                self._is_held |= found is None
                return found is True
            queue.popleft().finish(PermitEnded())
        del self._waiting[partition]
        return False

    def _begin_epoch(self, partition: ShardLog) -> None:
        """Begin again at sequence 0 of the next epoch; with a new producer id after the last."""
        place = self._places.pop(partition, None)
        if place is None or place.identity.producer_id != self._identity.producer_id:
            return  # all partitions have begun again meanwhile
        following = place.identity.next
        if following is None:
            self._is_identified = False
        else:
            self._places[partition] = _Place(following)

    def _divide(
        self, partition: ShardLog, sending: _Sending, error: ClientError, now: float
    ) -> None:
        """Put rows back that were too many for one batch, in their order; one alone fails."""
        if sum(len(job.rows) for job in sending.jobs) == 1:
            sending.jobs[0].finish(error)
            return
        limit = min(len(sending.batch) // 2, self._most_bytes(partition, now))
        self._limits[partition.partition.topic] = _LearnedLimit(limit, now + _LIMIT_SECONDS)
        divided = [part for job in sending.jobs for part in _divided(job, limit)]
        self._waiting.setdefault(partition, deque()).extendleft(reversed(divided))

    def _most_bytes(self, partition: ShardLog, now: float) -> int:
        """Return how large a batch may be, as far as refusals have taught."""
        learned = self._limits.get(partition.partition.topic)
        if learned is not None and learned.until <= now:
            del self._limits[partition.partition.topic]
            learned = None
        return _BATCH_BYTES if learned is None else learned.most_bytes

    def _take_jobs(self, partition: ShardLog, now: float) -> list[_Job]:
        """Take jobs for one batch. A partition that has more goes last next time."""
        queue = self._waiting.pop(partition)
        limit = min(self._most_bytes(partition, now), queue[0].most_bytes)
        if queue[0].size_bytes > limit:  # it came before a refusal taught the limit
            queue.extendleft(reversed(_divided(queue.popleft(), limit)))
        jobs = [queue.popleft()]
        size = jobs[0].size_bytes
        while queue and size + queue[0].size_bytes <= limit and verdict([queue[0].permit]):
            jobs.append(queue.popleft())
            size += jobs[-1].size_bytes
        if queue:
            self._waiting[partition] = queue
        return jobs

    def _encode(self, partition: ShardLog, jobs: list[_Job], now_ms: int) -> memoryview:
        rows = [row for job in jobs for row in job.rows]
        columns: dict[str, list[Any]] = {
            "key": [row.key for row in rows],
            "value": [row.value for row in rows],
        }
        schema = _PLAIN
        if any(row.explicit_hash_key is not None for row in rows):
            schema = _WITH_HEADERS
            columns["headers"] = [_headers(row) for row in rows]
        has_identity = self._identity != NO_IDENTITY
        place = self._places.get(partition) or _Place(self._identity)
        encoded = encode(
            pa.record_batch(columns, schema=schema),
            timestamp_ms=now_ms,
            max_batch_bytes=_LARGEST_BATCH,
            producer_id=place.identity.producer_id,
            producer_epoch=place.identity.epoch,
            base_sequence=place.sequence if has_identity else -1,
        )
        if has_identity:
            self._places[partition] = _Place(place.identity, encoded.next_sequence)
        [batch] = encoded.batches
        return batch


def _may_pass(error: ClientError) -> bool:
    """Return whether sending again may help: a leader moves, or a connection was lost."""
    return not isinstance(error, BrokerError) or error.code in _MAY_PASS


def _headers(row: Row) -> list[dict[str, object]]:
    if row.explicit_hash_key is None:
        return []
    return [{"key": EXPLICIT_HASH_KEY, "value": row.explicit_hash_key.encode()}]


def _divided(job: _Job, most_bytes: int) -> list[_Job]:
    return [
        _Job(piece, size, job.placing, job.start + start, job.most_bytes, job.permit)
        for piece, size, start in _pieces(job.rows, most_bytes)
    ]


def _pieces(rows: Sequence[Row], most_bytes: int) -> list[tuple[Sequence[Row], int, int]]:
    """Cut rows into pieces that fit into a batch; a row that does not is alone.

    Returns:
        The rows of each piece, about what they take, and the index of the first one.
    """
    pieces: list[tuple[Sequence[Row], int, int]] = []
    start = size = 0
    for at, row in enumerate(rows):
        if at > start and size + row.size_bytes > most_bytes:
            pieces.append((rows[start:at], size, start))
            start, size = at, 0
        size += row.size_bytes
    if rows:
        pieces.append((rows[start:], size, start))
    return pieces
