"""Records that wait for their partitions, batches on their way, and what an outcome means.

Pure: it knows no socket and no clock. `record_writer` sends what it hands out.

Rule 1: one batch of a partition is on its way at a time, so the order of puts into a partition is
the order of their offsets.
Rule 2: a batch that failed is sent again as it is, with the same producer id and sequence, so that
a broker that has it already appends it only once. Meanwhile only its own partition waits.
Rule 3: when a batch is given up, whether it was written is unknown and its sequence is spent. Later
batches of its partition begin at sequence 0 of the next epoch, as KIP-360 allows. What waits behind
it fails as well: no request may wait longer than the one before it.
Rule 4: a batch that is too large for its topic is divided. One record that is too large by itself
fails alone.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.client.error import AuthenticationFailed, BrokerError, ClientError
from headrace.client.network.retry import STALE_LEADER
from headrace.client.write.batch_writer import WrittenBatch
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity
from headrace.gateway.rest.produce.record import Placed, PlacedRun, Record, measure
from headrace.model.ids import TopicPartition
from headrace.records.batch import add_sequence
from headrace.records.column import HEADERS, TIMESTAMP
from headrace.records.encode import encode
from headrace.records.record import build_batch
from headrace.wire.error_code import ErrorCode

RETRY_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 0.1
REFUSED_PAUSE_SECONDS: Final = 2.0
"""After a login that was refused: brokers may lock out a user who tries too often."""
BATCH_BYTES: Final = 900_000
"""Below Kafka's default of max.message.bytes. A larger record has a batch of its own."""

ROUND_BYTES: Final = 16 << 20
_LARGEST_BATCH: Final = 64 << 20
_TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
_MAY_PASS: Final = STALE_LEADER | {
    ErrorCode.unknown_topic_or_partition,  # a new partition, which not all brokers know yet
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
}
_PLAIN: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])


class Delivery:
    """What became of the records of one put, in their order.

    Attributes:
        outcomes: complete once `left` is 0.
    """

    __slots__ = ("_single", "left", "outcomes")

    def __init__(self, count: int) -> None:
        self._single: list[Placed | ClientError | None] = [None] * count
        self.outcomes: Sequence[Placed | ClientError | None] = self._single
        self.left = count

    def finish(self, index: int, outcome: Placed | ClientError) -> bool:
        """Note the outcome of one record; return whether it was the last."""
        self._single[index] = outcome
        self.left -= 1
        return self.left == 0

    def finish_all(self, outcomes: Sequence[Placed | ClientError]) -> None:
        """Note the outcomes of all records at once."""
        self.outcomes = outcomes
        self.left = 0


class QueuedRecords(NamedTuple):
    """Records of one put that go to one partition, in their order.

    Attributes:
        places: of each among the records of its put.
        size_bytes: of all of them, as `Record.size_bytes` has it.
        is_plain: whether none has a header or a time of its own.
    """

    records: Sequence[Record]
    places: Sequence[int]
    delivery: Delivery
    size_bytes: int
    is_plain: bool

    @classmethod
    def of(
        cls, records: Sequence[Record], places: Sequence[int], delivery: Delivery
    ) -> "QueuedRecords":
        """Return records with their size."""
        return cls(records, places, delivery, *measure(records))

    def divide(self, most_bytes: int) -> "tuple[QueuedRecords, QueuedRecords | None]":
        """Return as many of the first records as fit, at least one, and the rest, if any."""
        size = count = 0
        for record in self.records:
            following = record.size_bytes
            if count and size + following > most_bytes:
                break
            size += following
            count += 1
        if count == len(self.records):
            return self, None
        first = self._replace(
            records=self.records[:count], places=self.places[:count], size_bytes=size
        )
        rest = self._replace(
            records=self.records[count:],
            places=self.places[count:],
            size_bytes=self.size_bytes - size,
        )
        return first, rest

    def finish(self, outcomes: Sequence[Placed | ClientError]) -> bool:
        """Note what became of each; return whether that completes their put."""
        delivery = self.delivery
        if len(outcomes) == len(delivery.outcomes):
            delivery.finish_all(outcomes)
            return True
        for place, outcome in zip(self.places, outcomes, strict=True):
            delivery.finish(place, outcome)
        return delivery.left == 0


class _Place(NamedTuple):
    """What the next batch of a partition begins with."""

    identity: ProducerIdentity
    sequence: int = 0


@dataclass(slots=True, eq=False)
class Sending:
    """One batch of one partition, from its first try to its outcome."""

    partition: TopicPartition
    rows: list[QueuedRecords]
    count: int
    size_bytes: int
    place: _Place
    time_ms: int
    deadline: float
    not_before: float = 0.0
    on_way: bool = True
    batch: memoryview | None = None

    @property
    def is_plain(self) -> bool:
        """Whether no record has a header or a time of its own."""
        return all(each.is_plain for each in self.rows)

    def encoded(self) -> memoryview:
        """Return the batch's bytes, the same at each try. For one thread at a time."""
        if self.batch is None:
            self.batch = _encode(self)
        return self.batch


@dataclass(slots=True)
class _Partition:
    waiting: deque[QueuedRecords] = field(default_factory=deque)
    sending: Sending | None = None
    place: _Place | None = None
    most_bytes: int = BATCH_BYTES


class ProduceQueue:
    """The records of one proxy.

    Example:
        queue.add(partition, rows)
        for sending in queue.take([partition], now, now_ms):
            finished = queue.finish(sending, outcome, now)
    """

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        # Those that have something to be sent or on its way: few of many.
        self._active: dict[TopicPartition, _Partition] = {}
        self._identity: ProducerIdentity | None = None

    @property
    def needs_identity(self) -> bool:
        """Whether nothing new is handed out before `identify`."""
        return self._identity is None

    def identify(self, identity: ProducerIdentity) -> None:
        """Continue with a new producer id, or with `NO_IDENTITY` if the brokers have none."""
        self._identity = identity
        for each in self._partitions.values():
            each.place = None

    def add(self, partition: TopicPartition, rows: QueuedRecords) -> None:
        """Add records behind those that wait."""
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = _Partition()
        found.waiting.append(rows)
        self._active[partition] = found

    def busy(self) -> list[TopicPartition]:
        """Return the partitions that have something to be sent, now or after a pause."""
        return [
            name
            for name, each in self._active.items()
            if each.waiting or (each.sending is not None and not each.sending.on_way)
        ]

    def seconds_to_wait(self, partitions: Collection[TopicPartition], now: float) -> float | None:
        """Return when the next pause of these partitions ends; None if none is in one."""
        pauses = [
            each.not_before - now
            for name in partitions
            if (each := self._partitions[name].sending) is not None and not each.on_way
        ]
        return max(0.0, min(pauses)) if pauses else None

    def take(
        self,
        partitions: Collection[TopicPartition],
        now: float,
        now_ms: int,
        most_bytes: int = ROUND_BYTES,
    ) -> list[Sending]:
        """Return at most one batch of each of these partitions.

        Args:
            most_bytes: of all batches, unless there is only one. `busy` names those that had to
                wait before those that had their turn.
        """
        taken: list[Sending] = []
        total = 0
        for name in partitions:
            found = self._partitions.get(name)
            if found is None:
                continue
            sending = found.sending
            if sending is not None:
                fits = not taken or total + sending.size_bytes <= most_bytes
                if not sending.on_way and sending.not_before <= now and fits:
                    sending.on_way = True
                    total += sending.size_bytes
                    taken.append(sending)
                    self._active[name] = self._active.pop(name)
                continue
            if not found.waiting or self._identity is None:
                continue
            following = max(BATCH_BYTES, found.waiting[0].records[0].size_bytes)
            if taken and total + following > most_bytes:
                continue
            rows, size = _take_rows(found)
            total += size
            count = sum(len(each.places) for each in rows)
            place = found.place or _Place(self._identity)
            found.sending = Sending(name, rows, count, size, place, now_ms, now + RETRY_SECONDS)
            found.place = _Place(place.identity, add_sequence(place.sequence, count))
            taken.append(found.sending)
            self._active[name] = self._active.pop(name)
        return taken

    def finish(
        self, sending: Sending, outcome: WrittenBatch | ClientError, now: float
    ) -> list[Delivery]:
        """Note what became of a batch that `take` returned; return the puts that are complete."""
        found = self._partitions.get(sending.partition)
        if found is None or found.sending is not sending:  # `fail_all` has given it up
            return []
        sending.on_way = False
        finished = self._finish(found, sending, outcome, now)
        self._settle(sending.partition, found)
        return finished

    def _settle(self, name: TopicPartition, found: _Partition) -> None:
        """Look at a partition no longer if it has nothing to be sent. Its sequence is kept."""
        if found.sending is None and not found.waiting:
            self._active.pop(name, None)
            if found.place is not None and found.place.identity == NO_IDENTITY:
                del self._partitions[name]  # it has no sequence

    def _finish(
        self,
        found: _Partition,
        sending: Sending,
        outcome: WrittenBatch | ClientError,
        now: float,
    ) -> list[Delivery]:
        if isinstance(outcome, WrittenBatch):
            found.sending = None
            return _placed(sending, outcome)
        if isinstance(outcome, BrokerError) and outcome.code in _TOO_LARGE:
            found.sending = None
            self._begin_epoch(found)
            return self._divide(found, sending, outcome)
        if _may_pass(outcome) and now < sending.deadline:
            refused = isinstance(outcome, AuthenticationFailed)
            sending.not_before = now + (REFUSED_PAUSE_SECONDS if refused else PAUSE_SECONDS)
            return []
        found.sending = None
        self._begin_epoch(found)
        rows = [*sending.rows, *found.waiting]
        found.waiting.clear()
        return _failed(rows, outcome)

    def fail_all(self, error: ClientError) -> list[Delivery]:
        """Give up everything; return the puts that are complete by that."""
        rows: list[QueuedRecords] = []
        for each in self._partitions.values():
            if each.sending is not None:
                rows += each.sending.rows
            rows += each.waiting
        self._partitions.clear()
        self._active.clear()
        self._identity = None  # batches may be on their way
        return _failed(rows, error)

    def _begin_epoch(self, found: _Partition) -> None:
        """Begin again at sequence 0 of the next epoch; with a new producer id after the last."""
        place = found.place
        if place is None or self._identity is None or place.identity == NO_IDENTITY:
            return
        if place.identity.producer_id != self._identity.producer_id:
            found.place = None
            return
        following = place.identity.next
        if following is None:
            self._identity = None
        else:
            found.place = _Place(following)

    def _divide(self, found: _Partition, sending: Sending, error: ClientError) -> list[Delivery]:
        if sending.count == 1:
            return _failed(sending.rows, error)
        found.most_bytes = max(1, min(found.most_bytes, sending.size_bytes) // 2)
        found.waiting.extendleft(reversed(sending.rows))
        return []


def _take_rows(found: _Partition) -> tuple[list[QueuedRecords], int]:
    """Take what fits into one batch, at least one record; return its size, too."""
    rows: list[QueuedRecords] = []
    size = 0
    waiting = found.waiting
    while waiting:
        following = waiting[0]
        room = found.most_bytes - size
        if following.size_bytes <= room:
            waiting.popleft()
        elif rows and following.records[0].size_bytes > room:
            break
        else:
            following, rest = following.divide(room)
            if rest is None:
                waiting.popleft()
            else:
                waiting[0] = rest
        rows.append(following)
        size += following.size_bytes
    return rows, size


def _placed(sending: Sending, written: WrittenBatch) -> list[Delivery]:
    finished = []
    offset = written.base_offset
    index = sending.partition.partition
    append_ms = written.log_append_time_ms
    for row in sending.rows:
        end = offset + len(row.places)
        outcomes: Sequence[Placed]
        if row.is_plain or append_ms >= 0:
            time_ms = sending.time_ms if append_ms < 0 else append_ms
            outcomes = PlacedRun(index, offset, end - offset, time_ms)
        else:
            outcomes = [
                Placed(index, at, sending.time_ms if (own := each.timestamp_ms) is None else own)
                for at, each in enumerate(row.records, offset)
            ]
        offset = end
        if row.finish(outcomes):
            finished.append(row.delivery)
    return finished


def _failed(rows: Sequence[QueuedRecords], error: ClientError) -> list[Delivery]:
    return [row.delivery for row in rows if row.finish([error] * len(row.places))]


def _may_pass(error: ClientError) -> bool:
    """Return whether sending again may help: a leader moves, or a connection was lost."""
    return not isinstance(error, BrokerError) or error.code in _MAY_PASS


def _encode(sending: Sending) -> memoryview:
    records = [record for each in sending.rows for record in each.records]
    place = sending.place
    sequence = -1 if place.identity == NO_IDENTITY else place.sequence
    if sending.is_plain:
        # Rows that are Python objects become bytes sooner without columns in between.
        return memoryview(
            build_batch(
                [each[:2] for each in records],
                sending.time_ms,
                producer_id=place.identity.producer_id,
                producer_epoch=place.identity.epoch,
                base_sequence=sequence,
            )
        )
    columns: dict[str, list[Any]] = {
        "key": [each.key for each in records],
        "value": [each.value for each in records],
    }
    schema = _PLAIN
    if any(each.headers for each in records):
        schema = schema.append(pa.field("headers", HEADERS))
        columns["headers"] = [
            [{"key": name, "value": value} for name, value in each.headers] for each in records
        ]
    if any(each.timestamp_ms is not None for each in records):
        schema = schema.append(pa.field("timestamp", TIMESTAMP))
        columns["timestamp"] = [
            sending.time_ms if each.timestamp_ms is None else each.timestamp_ms for each in records
        ]
    encoded = encode(
        pa.record_batch(columns, schema=schema),
        timestamp_ms=sending.time_ms,
        max_batch_bytes=_LARGEST_BATCH,
        producer_id=place.identity.producer_id,
        producer_epoch=place.identity.epoch,
        base_sequence=sequence,
    )
    [batch] = encoded.batches
    return batch
