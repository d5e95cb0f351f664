"""One partition's way to its leader: what waits, what is on its way, and what an answer means.

Pure: a lane knows no socket. The sender takes batches from it and tells it the answers.

Rule 1: batches leave in the order in which they were written. After a failure nothing more leaves
until everything that is on its way has been answered; then what failed goes again, first one first.
Rule 2: with an identity every batch has a sequence from its first sending on and keeps it, so that
a broker which has it already says so instead of appending it twice (KIP-98).
Rule 3: a broker that does not know our sequence, although nothing before it failed, has lost its
memory of us (its records were deleted, or came back older). The lane starts over with the next
epoch and sequence 0 (KIP-360). In a transaction that is an error: records of it may be lost.
Rule 4: the first batch of an identity goes alone. A broker that has seen nothing of a producer
takes any sequence for its first: a batch that overtook a refused first one would be appended.
Rule 5: patience starts with the first failure and ends with the next success.
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
"""Not written, or not known to be: send it again, to whoever leads then."""

_LOST_MEMORY = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id})


class RetryDecision(Enum):
    """What the sender does after an answer."""

    DONE = auto()
    AGAIN = auto()
    FAILED = auto()
    FENCED = auto()


@dataclass(slots=True)
class AcknowledgedRecords:
    """What one partition has acknowledged. The offsets are -1 while no broker has told them."""

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
        self.on_the_way: list[PendingBatch] = []
        self.landed = AcknowledgedRecords()
        self.identity = identity
        self.retry_at = 0.0
        self.node_id = NO_NODE
        self.forgotten = False
        self._settings = settings
        self._transactional = transactional
        self._next_sequence = 0
        self._introduced = False
        self._failed = False
        self._patience_ends: float | None = None
        self._backoff_seconds = settings.retry_backoff_ms / 1000

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.on_the_way

    def may_go_to(self, node_id: int) -> bool:
        """Whether what is on its way, if anything, is on its way there too."""
        return not self.on_the_way or self.node_id == node_id

    def is_ready(self, now: float) -> bool:
        """Whether `take` may be called."""
        if not self.waiting or now < self.retry_at:
            return False
        return not self.on_the_way or not (self._failed or self._goes_alone())

    def _goes_alone(self) -> bool:
        if self.identity == NO_IDENTITY:
            return False
        again = self.waiting[0].tries > 0 or any(each.tries > 1 for each in self.on_the_way)
        return again or not self._introduced

    def push(self, batch: PendingBatch) -> None:
        self.waiting.append(batch)

    def take(self, node_id: int = NO_NODE) -> PendingBatch:
        """The next batch to send, to this broker, with its sequence written into it."""
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
        self.on_the_way.append(batch)
        return batch

    def acknowledge(self, batch: PendingBatch, base_offset: int) -> None:
        """A broker has it, at `base_offset` or, when it does not say, at -1."""
        self.on_the_way.remove(batch)
        self._introduced = True
        self.landed.records += batch.records
        if base_offset >= 0:
            if self.landed.first_offset < 0:
                self.landed.first_offset = base_offset
            self.landed.last_offset = base_offset + batch.records - 1
        self._patience_ends = None
        self._backoff_seconds = self._settings.retry_backoff_ms / 1000

    def refuse(self, batch: PendingBatch, error: ClientError, now: float) -> RetryDecision:
        """An error instead of an acknowledgement."""
        first = not self._failed
        self._return(batch)
        if isinstance(error, BrokerError):
            if error.code in FENCED and self._transactional:
                return RetryDecision.FENCED
            if error.code in _LOST_MEMORY | FENCED and self.identity != NO_IDENTITY:
                # Behind one that failed, a batch is always out of order.
                if first and self._transactional:
                    return RetryDecision.FAILED
                self.forgotten |= first
            elif error.code not in WORTH_A_RETRY:
                return RetryDecision.FAILED
        return self.postpone(now, longer=first)

    def postpone(self, now: float, *, longer: bool = True) -> RetryDecision:
        """Try again a little later, as long as there is patience."""
        if self._patience_ends is None:
            self._patience_ends = now + self._settings.api_timeout_ms / 1000
        if now > self._patience_ends:
            return RetryDecision.FAILED
        if longer:
            self.retry_at = now + self._backoff_seconds
            self._backoff_seconds = min(self._backoff_seconds * 2, _LONGEST_BACKOFF_SECONDS)
        return RetryDecision.AGAIN

    def start_over(self, identity: ProducerIdentity) -> None:
        """Take another identity, from sequence 0 on. Nothing may be on its way."""
        assert not self.on_the_way
        self.identity = identity
        self.forgotten = False
        self._introduced = False
        self._next_sequence = 0
        for batch in self.waiting:
            batch.sequence = None

    def discard(self) -> list[PendingBatch]:
        """Give up what waits; what is on its way can still be answered."""
        given_up = list(self.waiting)
        self.waiting.clear()
        return given_up

    def _return(self, batch: PendingBatch) -> None:
        """Put a batch back among those that wait, in its place."""
        self.on_the_way.remove(batch)
        self._failed = True
        at = 0
        while at < len(self.waiting) and self.waiting[at].order < batch.order:
            at += 1
        self.waiting.insert(at, batch)
