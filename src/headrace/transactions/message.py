"""The requests of producers to their coordinator, and the replies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from headrace.transactions.error import TransactionError
from headrace.transactions.metadata import CLASSIC_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer takes over a transactional id, or (KIP-360) asks to go on after an error.

    `producer_id` and `producer_epoch` are given in the second case, by clients of version 3 and up.
    """

    transactional_id: str
    timeout_ms: int
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    @property
    def resumes(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Partitions join the transaction: AddPartitionsToTxn, AddOffsetsToTxn (with its partition of
    `__consumer_offsets`), or, with `client_version` 2, a Produce or TxnOffsetCommit itself."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    client_version: int = CLASSIC_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """An EndTxn request. `client_version` is 2 from EndTxn version 5 on."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    commit: bool
    client_version: int = CLASSIC_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReply:
    """The reply to InitProducerId."""

    error: TransactionError = TransactionError.NONE
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReply:
    """The reply to AddPartitions."""

    error: TransactionError = TransactionError.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReply:
    """The reply to AddPartitionsToTxn with verify_only (KIP-890 part 1): an error for all, or one
    per partition."""

    error: TransactionError = TransactionError.NONE
    partitions: Mapping[TopicPartition, TransactionError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReply:
    """The reply to EndTxn. Producer id and epoch are those of the next transaction; only EndTxn 5
    sends them."""

    error: TransactionError = TransactionError.NONE
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


Answer = InitReply | AddReply | EndReply
