"""Writes batches and positions to the target, in transactions.

One transactional id per flow, or per flow and instance: a process that starts takes it over, which
aborts what a killed process left open, and fences a process that still runs. Instances that share a
flow commit as members of its group, so that one that lost its partitions is refused (KIP-447).
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.pending_batch import PendingBatch, SharedBuffer
from headrace.client.write.sender import Sender
from headrace.client.write.transaction_calls import NO_MEMBERSHIP, GroupMembership
from headrace.client.write.writer_transaction import WriterTransaction
from headrace.mirror.process.position import Position
from headrace.mirror.process.source_batches import SourceBatch, SourceBatches
from headrace.model.ids import TopicPartition

TIMEOUT_MS: Final = 30_000
"""A transaction takes less than a second; what a killed instance left open blocks its partitions
for so long."""

_MAX_IN_FLIGHT: Final = 5
_MAX_HELD_BYTES: Final = 8 << 20


class OffsetPair(NamedTuple):
    """The offset of a record at the source and that of its copy."""

    source: int
    target: int


class _CopiedBatch(PendingBatch):
    """A batch on its way to the target."""

    __slots__ = ("first_offset", "last_offset")

    def __init__(self, source: SourceBatch) -> None:
        size_bytes = len(source.data)
        super().__init__(source.data, source.records, SharedBuffer(size_bytes, 1))
        self.first_offset = source.first_offset
        self.last_offset = source.last_offset


class TargetWriter:
    """The transactional producer of one flow. One thread may use it.

    Example:
        writer = TargetWriter(settings, "mirror-A->B", "mirror-A->B")
        writer.open()
        writer.begin()
        writer.write(partition, source_batches(fetched))
        writer.send()
        writer.commit({partition: position})
    """

    def __init__(
        self,
        settings: ClientSettings,
        transactional_id: str,
        group: str,
        membership: GroupMembership = NO_MEMBERSHIP,
    ) -> None:
        self._membership = membership
        self._begun_at = 0.0
        self._pool = ConnectionPool(settings)
        self._group = group
        self._transaction = WriterTransaction(self._pool, transactional_id, TIMEOUT_MS)
        self._sender = Sender(
            self._pool,
            acks=-1,
            max_in_flight=_MAX_IN_FLIGHT,
            transactional_id=transactional_id,
            enlist=self._transaction.enlist,
            on_acknowledged=self._acknowledged,
        )
        self._pairs: defaultdict[TopicPartition, list[OffsetPair]] = defaultdict(list)

    @property
    def pool(self) -> ConnectionPool:
        """The connections of this thread to the target."""
        return self._pool

    def open(self) -> None:
        """Take the transactional id over."""
        self._sender.restart(self._transaction.take_over())
        self._sender.adds_partitions = self._transaction.second_version

    def begin(self) -> None:
        """Begin a transaction."""
        self._begun_at = time.monotonic()
        self._transaction.begin(self._sender.identity)

    def write(self, partition: TopicPartition, source: SourceBatches) -> None:
        """Add batches to what is sent, in their order."""
        self._sender.hold(source.size_bytes)
        self._sender.push(partition, map(_CopiedBatch, source.batches))

    def send(self) -> None:
        """Send what was added. Waits while much is on its way already.

        Raises:
            WriteFailed: the target refuses a batch.
            ProducerFenced: another process has the transactional id.
        """
        self._sender.pump()
        while self._sender.held_bytes > _MAX_HELD_BYTES:
            self._sender.wait()

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Wait for every batch, and make it visible together with the positions.

        Raises:
            ClientError: as `send`; the transaction is not committed, or that is unknown.
        """
        while not self._sender.is_idle:
            self._sender.wait()
        self._sender.raise_failure()
        self._transaction.commit_offsets(
            self._group,
            {partition: each.committed() for partition, each in positions.items()},
            self._membership,
        )
        identity = self._transaction.end(committed=True)
        if identity != self._sender.identity:
            self._sender.restart(identity)

    def take_pairs(self) -> dict[TopicPartition, list[OffsetPair]]:
        """Return which offsets the batches since the last call have at both sides, in order."""
        pairs, self._pairs = self._pairs, defaultdict(list)
        return pairs

    def _acknowledged(
        self, partition: TopicPartition, batch: PendingBatch, base_offset: int
    ) -> None:
        assert isinstance(batch, _CopiedBatch)
        if base_offset >= 0:
            first, last = batch.first_offset, batch.last_offset
            found = self._pairs[partition]
            if first >= 0:
                found.append(OffsetPair(first, base_offset))
            if batch.records > 1 or first < 0:
                found.append(OffsetPair(last, base_offset + batch.records - 1))

    @property
    def may_have_timed_out(self) -> bool:
        """Whether the transaction is so old that its coordinator may have aborted it.

        A writer is fenced then, too. Otherwise another process has taken the transactional id over.
        """
        return time.monotonic() - self._begun_at > TIMEOUT_MS / 2000

    def close(self) -> None:
        """Disconnect. An open transaction is aborted by the next process, or by its timeout."""
        self._sender.close()
        self._pool.close()
