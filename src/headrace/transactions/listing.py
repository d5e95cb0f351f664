"""What ListTransactions and DescribeTransactions answer."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.metadata import TransactionMetadata
from headrace.transactions.state import TransactionState

_BY_LABEL = {state.label: state for state in TransactionState}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One line of ListTransactions."""

    transactional_id: str
    producer_id: ProducerId
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """One answer of DescribeTransactions.

    `partitions` are those of the open transaction; while it ends, those that lack their marker.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    state: str
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFilter:
    """Which transactional ids to list; an empty or unset criterion matches all.

    Attributes:
        longer_than_ms: only transactions that began longer ago than this (KIP-994).
        matches: whether an id fits the client's pattern (KIP-1152). A function, because a pattern
            from outside must be run by an engine that takes linear time, and that is the broker's.
    """

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    matches: Callable[[str], bool] | None = None

    @property
    def unknown_states(self) -> frozenset[str]:
        return frozenset(name for name in self.states if name not in _BY_LABEL)

    def accepts(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        if self.states and metadata.state.label not in self.states:
            return False
        if self.producer_ids and metadata.producer_id not in self.producer_ids:
            return False
        if self.longer_than_ms >= 0 and now_ms - metadata.start_ms <= self.longer_than_ms:
            return False
        return self.matches is None or self.matches(metadata.transactional_id)
