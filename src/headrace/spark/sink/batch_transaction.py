"""The transactions in which the driver writes encoded record batches, one after the other.

Rule 1: taking the transactional id over fences every other driver that has it, and ends the open
transaction of one that died; only then may the ledger be read.
Rule 2: a transaction that is not committed is aborted. When even that fails, because the driver was
killed or no broker responds, the next driver that takes over aborts it, or the coordinator does
when it times out.
Rule 3: the next transaction of the same object takes nothing over. Every request of it fails if
another driver has taken over since, and nothing of it is visible then.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Final

from headrace.client.error import ClientError, ProducerFenced
from headrace.client.network.pool import ConnectionPool
from headrace.client.write.pending_batch import SharedBuffer, pending_batches
from headrace.client.write.producer_id import ProducerIdentity
from headrace.client.write.sender import Sender
from headrace.client.write.transaction_calls import NO_MEMBERSHIP, OffsetAndMetadata
from headrace.client.write.writer_transaction import WriterTransaction
from headrace.model.ids import TopicPartition

_ALL_IN_SYNC: Final = -1
_MAX_IN_FLIGHT: Final = 5
_HELD_MAX_BYTES: Final = 32 * 1024 * 1024


class BatchTransaction:
    """The next transaction of a transactional id; and those after it, each begun with `begin`.

    Example:
        with BatchTransaction(pool, "headrace-sink-1", 60_000) as transaction:
            transaction.write(TopicPartition("clicks", 0), batch)
            transaction.commit("headrace-sink-1", entries(["clicks"], 7, record_count=1))

    Raises:
        ProducerFenced: from every call, when another driver has taken the transactional id over.
        ClientError: from every call, when a broker refuses or cannot be reached for too long.
    """

    def __init__(self, pool: ConnectionPool, transactional_id: str, timeout_ms: int) -> None:
        self._state = WriterTransaction(pool, transactional_id, timeout_ms)
        self._sender = Sender(
            pool,
            acks=_ALL_IN_SYNC,
            max_in_flight=_MAX_IN_FLIGHT,
            transactional_id=transactional_id,
            enlist=self._state.enlist,
        )
        identity = self._state.take_over()
        self._sender.adds_partitions = self._state.second_version
        self._sender.restart(identity)
        self._state.begin(identity)

    def begin(self) -> None:
        """Begin another transaction, after one that was committed, or had nothing in it."""
        self._state.begin(self._sender.identity)

    def write(self, target: TopicPartition, data: memoryview) -> None:
        """Send a batch; wait while too many bytes are held.

        Args:
            data: one whole batch, in a writable buffer that is not used elsewhere.
        """
        buffer = SharedBuffer(len(data), 1)
        self._sender.hold(buffer.size_bytes)
        self._sender.push(target, pending_batches([data], buffer))
        self._sender.pump()
        while self._sender.held_bytes > _HELD_MAX_BYTES:
            self._sender.wait()

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Make all batches visible, together with these offsets of a group."""
        while not self._sender.is_idle:
            self._sender.wait()
        self._sender.raise_failure()
        self._state.commit_offsets(group, offsets, NO_MEMBERSHIP)
        self._continue_as(self._state.end(committed=True))

    def __enter__(self) -> "BatchTransaction":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # After fencing there is nothing left to abort.
            if self._state.is_open and not isinstance(error, ProducerFenced):
                self._sender.discard()
                self._continue_as(self._state.end(committed=False))
        except ClientError as second:
            if error is None:
                raise
            error.add_note(f"the transaction could not be aborted either: {second}")
        finally:
            self._sender.close()

    def _continue_as(self, identity: ProducerIdentity) -> None:
        if identity != self._sender.identity:
            self._sender.restart(identity)
