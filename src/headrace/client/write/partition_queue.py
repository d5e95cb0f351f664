"""The batches of one partition: those that wait, those in flight, and what a response means.

Pure: a queue knows no socket. The sender gets batches from it and passes the responses to it.

Rule 1: batches are sent in the order in which they were written. After a failure nothing more is
sent until all batches in flight are answered; then the failed ones are sent again, in order.
Rule 2: with an identity every batch gets a sequence when it is first sent and keeps it, so that a
broker which has the batch already reports a duplicate instead of appending it twice (KIP-98).
Rule 3: a broker that refuses a sequence although no batch before it failed has lost the producer's
state (its records were deleted, or an older replica leads). The queue starts over with the next
epoch and sequence 0 (KIP-360). In a transaction that is an error: records of it may be lost.
Rule 4: the first batch of an identity is sent alone. A broker that knows nothing of a producer
accepts any first sequence: it would append a second batch that overtook a refused first one.
Rule 5: the time limit for retries starts with the first failure and ends with the next success.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.metadata import NO_NODE
from headrace.client.network.retry import STALE_COORDINATOR, STALE_LEADER
from headrace.client.settings import ClientSettings
from headrace.client.write.pending_batch import PendingBatch
from headrace.client.write.producer_id import FENCED, NO_IDENTITY, ProducerIdentity
from headrace.model.ids import TopicPartition
from headrace.records.batch import add_sequence, assign_producer
from headrace.wire.error_code import ErrorCode

_LONGEST_BACKOFF_SECONDS = 1.0

WORTH_A_RETRY = (
    STALE_LEADER
    | STALE_COORDINATOR
    | {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.network_exception,
        ErrorCode.corrupt_message,
        # The coordinator still ends the transaction before, or cannot be asked yet (KIP-890).
        ErrorCode.concurrent_transactions,
    }
)
"""The batch is not written, or that is unknown: send it again, to the leader of then."""

_LOST_STATE = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id})


class RetryDecision(Enum):
    """What the sender does after an error."""

    RETRY = auto()
    FAILED = auto()
    FENCED = auto()


@dataclass(slots=True)
class AcknowledgedRecords:
    """What one partition has acknowledged. The offsets are -1 while no broker has sent them."""

    records: int = 0
    first_offset: int = -1
    last_offset: int = -1


class PartitionQueue:
    """The batches of one partition, in order."""

    def __init__(
        self,
        partition: TopicPartition,
        settings: ClientSettings,
        identity: ProducerIdentity = NO_IDENTITY,
        *,
        transactional: bool = False,
    ) -> None:
        self.partition = partition
        self.waiting: deque[PendingBatch] = deque()
        self.in_flight: list[PendingBatch] = []
        self.acknowledged = AcknowledgedRecords()
        self.identity = identity
        self.retry_at = 0.0
        self.node_id = NO_NODE
        self.forgotten = False
        self._settings = settings
        self._transactional = transactional
        self._next_sequence = 0
        self._acknowledged_once = False
        self._failed = False
        self._retry_until: float | None = None
        self._backoff_seconds = settings.retry_backoff_ms / 1000

    @property
    def is_empty(self) -> bool:
        """Whether no batch waits and none is in flight."""
        return not self.waiting and not self.in_flight

    def may_go_to(self, node_id: int) -> bool:
        """Return whether no batch is in flight to another broker."""
        return not self.in_flight or self.node_id == node_id

    def is_ready(self, now: float) -> bool:
        """Return whether `next_batch` may be called."""
        if not self.waiting or now < self.retry_at:
            return False
        return not self.in_flight or not (self._failed or self._goes_alone())

    def _goes_alone(self) -> bool:
        if self.identity == NO_IDENTITY:
            return False
        is_retry = self.waiting[0].tries > 0 or any(each.tries > 1 for each in self.in_flight)
        return is_retry or not self._acknowledged_once

    def push(self, batch: PendingBatch) -> None:
        """Append a batch."""
        self.waiting.append(batch)

    def next_batch(self, node_id: int = NO_NODE) -> PendingBatch:
        """Return the next batch to send to this broker, with its sequence written into it."""
        self.node_id = node_id
        batch = self.waiting.popleft()
        self._failed = False
        if self.identity != NO_IDENTITY and batch.sequence is None:
            batch.sequence = self._next_sequence
            self._next_sequence = add_sequence(batch.sequence, batch.records)
            assign_producer(
                batch.data, *self.identity, batch.sequence, transactional=self._transactional
            )
        batch.tries += 1
        self.in_flight.append(batch)
        return batch

    def acknowledge(self, batch: PendingBatch, base_offset: int) -> None:
        """Note that the broker has appended a batch, at `base_offset` or -1 if it does not say."""
        self.in_flight.remove(batch)
        self._acknowledged_once = True
        self.acknowledged.records += batch.records
        if base_offset >= 0:
            if self.acknowledged.first_offset < 0:
                self.acknowledged.first_offset = base_offset
            self.acknowledged.last_offset = base_offset + batch.records - 1
        self._retry_until = None
        self._backoff_seconds = self._settings.retry_backoff_ms / 1000

    def refuse(self, batch: PendingBatch, error: ClientError, now: float) -> RetryDecision:
        """Put a batch back that was answered with an error, and decide what to do about it."""
        first = not self._failed
        self._requeue(batch)
        if isinstance(error, BrokerError):
            if error.code in FENCED and self._transactional:
                return RetryDecision.FENCED
            if error.code in _LOST_STATE | FENCED and self.identity != NO_IDENTITY:
                # A batch after one that failed is always out of order.
                if first and self._transactional:
                    return RetryDecision.FAILED
                self.forgotten |= first
            elif error.code not in WORTH_A_RETRY:
                return RetryDecision.FAILED
        return self.postpone(now, longer=first)

    def postpone(self, now: float, *, longer: bool = True) -> RetryDecision:
        """Retry after a pause, until the time limit."""
        if self._retry_until is None:
            self._retry_until = now + self._settings.api_timeout_ms / 1000
        if now > self._retry_until:
            return RetryDecision.FAILED
        if longer:
            self.retry_at = now + self._backoff_seconds
            self._backoff_seconds = min(self._backoff_seconds * 2, _LONGEST_BACKOFF_SECONDS)
        return RetryDecision.RETRY

    def start_over(self, identity: ProducerIdentity) -> None:
        """Use another identity, from sequence 0 on. No batch may be in flight."""
        assert not self.in_flight
        self.identity = identity
        self.forgotten = False
        self._acknowledged_once = False
        self._next_sequence = 0
        for batch in self.waiting:
            batch.sequence = None

    def discard(self) -> list[PendingBatch]:
        """Remove and return the batches that wait. Those in flight can still be answered."""
        discarded = list(self.waiting)
        self.waiting.clear()
        return discarded

    def _requeue(self, batch: PendingBatch) -> None:
        """Put a batch back among those that wait, in the order of writing."""
        self.in_flight.remove(batch)
        self._failed = True
        at = 0
        while at < len(self.waiting) and self.waiting[at].order < batch.order:
            at += 1
        self.waiting.insert(at, batch)
