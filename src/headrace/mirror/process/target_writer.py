"""Writes batches and positions to the target, in transactions.

One transactional id per flow: a process that starts takes it over, which aborts what a killed
process left open, and fences a process that still runs.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client.error import ProducerFenced
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.partition_queue import AcknowledgedRecords
from headrace.client.write.pending_batch import SharedBuffer, pending_batches
from headrace.client.write.producer_id import transactional_identity
from headrace.client.write.sender import Sender
from headrace.client.write.transaction_calls import NO_MEMBERSHIP
from headrace.client.write.writer_transaction import WriterTransaction
from headrace.mirror.process.position import Position
from headrace.model.ids import TopicPartition

TIMEOUT_MS: Final = 60_000
_MAX_IN_FLIGHT: Final = 5
_MAX_HELD_BYTES: Final = 16 << 20


class TargetWriter:
    """The transactional producer of one flow. One thread may use it.

    Example:
        writer = TargetWriter(settings, "mirror-A->B", "mirror-A->B")
        writer.open()
        writer.begin()
        writer.write(partition, batches)
        writer.commit({partition: position})
    """

    def __init__(self, settings: ClientSettings, transactional_id: str, group: str) -> None:
        self._pool = ConnectionPool(settings)
        self._group = group
        self._transactional_id = transactional_id
        self._transaction = WriterTransaction(self._pool, transactional_id, TIMEOUT_MS)
        self._sender = Sender(
            self._pool,
            acks=-1,
            max_in_flight=_MAX_IN_FLIGHT,
            transactional_id=transactional_id,
            enlist=self._transaction.enlist,
        )

    @property
    def pool(self) -> ConnectionPool:
        """The connections of this thread to the target."""
        return self._pool

    def open(self) -> None:
        """Take the transactional id over."""
        self._sender.restart(self._transaction.take_over())
        self._sender.adds_partitions = self._transaction.second_version

    def begin(self) -> None:
        self._transaction.begin(self._sender.identity)

    def write(self, partition: TopicPartition, batches: Iterable[memoryview]) -> None:
        """Send batches, in their order. Waits while much is on its way already.

        Raises:
            WriteFailed: the target refuses an earlier batch.
            ProducerFenced: another process has the transactional id.
        """
        for data in batches:
            self._sender.hold(len(data))
            self._sender.push(partition, pending_batches([data], SharedBuffer(len(data), 1)))
        self._sender.pump()
        while self._sender.held_bytes > _MAX_HELD_BYTES:
            self._sender.wait()

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Wait for every batch, and make it visible together with the positions.

        Raises:
            ClientError: as `write`; the transaction is not committed, or that is unknown.
        """
        while not self._sender.is_idle:
            self._sender.wait()
        self._sender.raise_failure()
        self._transaction.commit_offsets(
            self._group,
            {partition: each.committed() for partition, each in positions.items()},
            NO_MEMBERSHIP,
        )
        identity = self._transaction.end(committed=True)
        if identity != self._sender.identity:
            self._sender.restart(identity)

    def acknowledged(self, partition: TopicPartition) -> AcknowledgedRecords | None:
        """Return what a partition has taken since `open`."""
        queue = self._sender.queues.get(partition)
        return None if queue is None else queue.acknowledged

    def is_replaced(self) -> bool:
        """Return whether another process has taken the transactional id over.

        The other reason to be fenced is a transaction that took too long and was aborted.
        """
        try:
            transactional_identity(
                self._pool, self._transactional_id, TIMEOUT_MS, self._sender.identity
            )
        except ProducerFenced:
            return True
        return False

    def close(self) -> None:
        """Disconnect. An open transaction is aborted by the next process, or by its timeout."""
        self._sender.close()
        self._pool.close()
