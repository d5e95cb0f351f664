"""The state of a writer's transaction."""

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from headrace.client.network.pool import ConnectionPool
from headrace.client.write.prepared_transaction import PreparedTransaction
from headrace.client.write.producer_id import (
    NO_IDENTITY,
    ProducerIdentity,
    transactional_identity,
)
from headrace.client.write.transaction_calls import (
    GroupMembership,
    OffsetAndMetadata,
    TransactionCalls,
)
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition


class _Phase(Enum):
    READY = auto()
    OPEN = auto()
    PREPARED = auto()


class WriterTransaction:
    """The transactions of one transactional id, one after the other.

    A transaction without records and offsets is unknown to its coordinator: it ends without a
    request.
    """

    def __init__(self, pool: ConnectionPool, transactional_id: str, timeout_ms: int) -> None:
        self.second_version = False
        self._pool = pool
        self._calls = TransactionCalls(pool, transactional_id)
        self._timeout_ms = timeout_ms
        self._identity = NO_IDENTITY
        self._phase = _Phase.READY
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()

    @property
    def transactional_id(self) -> str:
        """The id that this writer took over."""
        return self._calls.transactional_id

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._phase is _Phase.OPEN

    def take_over(self) -> ProducerIdentity:
        """Take the transactional id over from another writer; return the new identity."""
        identity = transactional_identity(self._pool, self.transactional_id, self._timeout_ms)
        self.second_version = self._calls.second_version()
        return identity

    def begin(self, identity: ProducerIdentity) -> None:
        """Begin a transaction.

        Raises:
            InvalidArgument: one is open already.
        """
        if self.is_open:
            raise InvalidArgument("a transaction is open already: commit or abort it first")
        self._identity = identity
        self._phase = _Phase.OPEN

    def check_open(self) -> None:
        """Raise `InvalidArgument` unless a transaction is open."""
        if not self.is_open:
            raise InvalidArgument("no transaction is open: begin one first")

    def enlist(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction before they are written to."""
        new = [each for each in partitions if each not in self._partitions]
        if new and not self.second_version:
            self._calls.add_partitions(self._identity, new)
        self._partitions.update(new)

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        membership: GroupMembership,
    ) -> None:
        """Put a group's offsets into the transaction."""
        if not offsets:
            return
        if group not in self._groups and not self.second_version:
            self._calls.add_group(self._identity, group)
        self._groups.add(group)
        self._calls.commit_offsets(
            self._identity, group, offsets, membership, second_version=self.second_version
        )

    def end(self, *, committed: bool, broken: bool = False) -> ProducerIdentity:
        """Commit or abort; return the identity of the next transaction.

        Args:
            broken: batches were discarded while they were in flight, so the sequences have a gap.
                The next transaction then needs another epoch (KIP-360).
        """
        self.check_open()
        identity = self._identity
        if self._partitions or self._groups:
            identity = self._calls.end(identity, committed=committed)
        if broken and identity == self._identity:
            identity = transactional_identity(
                self._pool, self.transactional_id, self._timeout_ms, identity
            )
        self._forget(_Phase.READY)
        return identity

    def prepare(self) -> PreparedTransaction:
        """Return the open transaction for another process to end."""
        started = bool(self._partitions or self._groups)
        self._forget(_Phase.PREPARED)
        return PreparedTransaction(self.transactional_id, self._identity, started)

    def _forget(self, phase: _Phase) -> None:
        self._phase = phase
        self._partitions.clear()
        self._groups.clear()
