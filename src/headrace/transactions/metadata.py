"""The metadata of one transactional id: the value of its record, in memory."""

from dataclasses import dataclass, replace
from enum import Enum

from headrace.model.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from headrace.model.offset import NO_TIMESTAMP_MS

MAX_EPOCH = 2**15 - 1

# transaction.version=2 (KIP-890): ending a transaction bumps the epoch, partitions come by Produce.
EPOCH_BUMP_VERSION = 2
CLASSIC_VERSION = 0


class TransactionState(Enum):
    """Kafka's states; the value is the byte in the record.

    `DEAD` and `PREPARE_EPOCH_FENCE` exist in Kafka as the name of a change that is under way. Here
    an unfinished change is held beside the state (see `registry`), so the two are never written;
    they stay in the enum because tools may ask for them by name.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name ListTransactions and DescribeTransactions use: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def resting(self) -> bool:
        """Whether no transaction is open or ending: one may begin, and the id may expire."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id at one moment.

    Invariants: `partitions` is empty unless the state is Ongoing or Prepare*; `next_producer_id`
    is set only in Prepare*, when ending this transaction used up the epochs of `producer_id`.

    Attributes:
        previous_producer_id: the producer id before the last change; it lets a retry that crossed
            a change of producer id be recognised.
        last_producer_epoch: the epoch before the last bump that the producer itself asked for.
            Kafka's record has no field for it, so it is forgotten when the coordinator restarts.
        start_ms: when the first partition was added; kept after the end, -1 before the first.
        client_version: the transaction.version of the client that made the last change.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP_MS
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    last_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    client_version: int = CLASSIC_VERSION

    @property
    def epoch_exhausted(self) -> bool:
        """Whether no epoch is left for clients: the last one is kept for fencing."""
        return epoch_exhausted(self.producer_epoch)

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMP_VERSION

    @property
    def deadline_ms(self) -> int:
        """When an Ongoing transaction is aborted for the producer."""
        return self.start_ms + self.timeout_ms

    def durable(self) -> "TransactionMetadata":
        """Return what is left of this after a restart."""
        return replace(self, last_producer_epoch=NO_PRODUCER_EPOCH)


def epoch_exhausted(epoch: int) -> bool:
    return epoch >= MAX_EPOCH - 1
