"""The metadata of one transactional id: the value of its record, in memory."""

from dataclasses import dataclass, replace

from headrace.model.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from headrace.model.offset import NO_TIMESTAMP_MS
from headrace.transactions.state import TransactionState

MAX_EPOCH = 2**15 - 1

# transaction.version=2 (KIP-890): ending a transaction bumps the epoch, partitions come by Produce.
EPOCH_BUMP_VERSION = 2
CLASSIC_VERSION = 0


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
