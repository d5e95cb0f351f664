"""Writes Arrow tables as records: the bulk writer.

Theory of operation. `write` accumulates rows until they fill a request, cuts them into chunks,
assigns each row a partition, encodes batches and passes them to the `Sender`, all in columns.
Nothing happens in the background: accumulated rows are sent by the next `write` after `linger_ms`,
or by `flush`, `commit` or `close`.

Rule 1: records of one partition are in the log in the order in which they were written, each of
them once, whatever fails meanwhile, if the writer is idempotent (the default).
Rule 2: when about `memory_bytes` are held, `write` waits for the brokers.
Rule 3: a `WriteFailed` ends the writer, or, if it is transactional, the transaction.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Literal

from headrace.client.error import ClientError, ProducerFenced
from headrace.client.network.metadata import TopicMetadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.accumulator import Accumulator
from headrace.client.write.partition_queue import AcknowledgedRecords
from headrace.client.write.pending_batch import PendingBatch, SharedBuffer
from headrace.client.write.prepared_transaction import PreparedTransaction
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity, idempotent_identity
from headrace.client.write.row_encoder import RowEncoder
from headrace.client.write.row_partitioner import Columns, RowPartitioner
from headrace.client.write.sender import Sender
from headrace.client.write.transaction_calls import (
    NO_MEMBERSHIP,
    GroupMembership,
    OffsetAndMetadata,
)
from headrace.client.write.writer_transaction import WriterTransaction
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.records.compression import codec_named
from headrace.records.encode import MAX_BATCH_BYTES
from headrace.wire.error_code import ErrorCode

MEMORY_BYTES: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 16 * 1024 * 1024
MOST_IN_FLIGHT: Final = 5
"""A broker remembers the last five batches of a producer per partition, and no more."""

_NEW_TOPIC_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)
_MAYBE_NEW: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available}
)
_ACKS: Final[Mapping[object, int]] = {"all": -1, -1: -1, "1": 1, 1: 1, "0": 0, 0: 0}


class Writer:
    """Writes Arrow tables to topics of Headrace or Apache Kafka.

    The columns of a table are `key`, `value` (any binary or string type), `headers` (lists of
    structs with key and value, or maps), `timestamp` (any timestamp, or milliseconds) and
    `partition`, all optional. What a `Reader` yields can be written as it is. A row goes to the
    partition it names, else to that of its key's hash as with Kafka's own clients, else to that of
    the next batch.

    >>> import pyarrow as pa
    >>> settings = {"bootstrap.servers": address}
    >>> with Writer(settings, topic="clicks") as writer:
    ...     writer.write(pa.table({"key": ["alice", "bob"], "value": ["/home", "/cart"]}))
    ...     writer.flush()
    ...     sum(each.records for each in writer.written.values())
    2

    With a transactional id, everything between `begin` and `commit` becomes visible at once to
    readers of committed records:

    >>> with Writer(settings, transactional_id="billing-1") as writer:
    ...     with writer.transaction():
    ...         writer.write(pa.table({"value": ["one invoice"]}), topic="invoices")
    ...         writer.send_offsets("billing", {TopicPartition("orders", 0): 1200})

    One writer belongs to one thread.

    Args:
        settings: how to connect: Kafka's client settings.
        topic: where rows go unless `write` says otherwise.
        acks: "all" (every in-sync replica has it), 1 (the leader has it), 0 (it was sent).
        idempotent: retries neither double nor reorder records; needs acks="all".
        transactional_id: write in transactions under this name. Only one writer has it at a time.
        transaction_timeout_ms: how long a transaction may stay open before it is aborted.
        codec, level: none, gzip, snappy, lz4 or zstd.
        batch_bytes: the size at which a batch is full, before compression.
        max_in_flight: the most requests in flight to each broker.
        memory_bytes: about how many bytes are held before `write` waits.
        linger_ms: how long the rows of a small `write` may wait for more.

    Raises:
        InvalidArgument: a wrong option, or two that contradict each other.
        ClientError: no broker could be reached, or it refuses to assign a producer id.
    """

    def __init__(
        self,
        settings: ClientSettings | Mapping[str, str],
        topic: str | None = None,
        *,
        acks: Literal["all", "1", "0", 1, 0, -1] = "all",
        idempotent: bool = True,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        codec: str = "none",
        level: int | None = None,
        batch_bytes: int = MAX_BATCH_BYTES,
        max_in_flight: int = MOST_IN_FLIGHT,
        memory_bytes: int = MEMORY_BYTES,
        linger_ms: int = 100,
    ) -> None:
        _check_options(acks, idempotent, transactional_id, max_in_flight, memory_bytes)
        if not isinstance(settings, ClientSettings):
            settings = ClientSettings.of(settings)
        self.topic = topic
        chunk_bytes = min(CHUNK_BYTES, max(batch_bytes, memory_bytes // 4))
        self._encoder = RowEncoder(codec_named(codec), level, batch_bytes, chunk_bytes)
        self._memory_bytes = memory_bytes
        self._idempotent = idempotent
        self._pool = ConnectionPool(settings)
        self._transaction: WriterTransaction | None = None
        if transactional_id is not None:
            self._transaction = WriterTransaction(
                self._pool, transactional_id, transaction_timeout_ms
            )
        self._sender = Sender(
            self._pool,
            acks=_ACKS[acks],
            max_in_flight=max_in_flight,
            transactional_id=transactional_id,
            enlist=None if self._transaction is None else self._transaction.enlist,
        )
        self._partitioners: dict[str, RowPartitioner] = {}
        self._accumulators: dict[str, Accumulator] = {}
        self._linger_seconds = linger_ms / 1000
        self._closed = False

    # -- writing

    def write(self, columns: Columns, topic: str | None = None) -> None:
        """Write rows. Returns when they are encoded or accumulated, not when they are acknowledged:
        `flush` and `commit` wait for that.

        The memory of `columns` may be used until then and must not change.

        Raises:
            InvalidArgument: columns that cannot become records; no row of them is written.
            WriteFailed: earlier rows could not be written.
        """
        self._check_open()
        name = topic or self.topic
        if name is None:
            raise InvalidArgument("no topic: give one to write() or to the Writer")
        if self._transaction is not None:
            self._transaction.check_open()
        partitioner = self._partitioner(name)
        partitioner.check(columns)
        accumulator = self._accumulators.get(name)
        if accumulator is None:
            accumulator = self._accumulators[name] = Accumulator()
        enough = min(self._encoder.chunk_bytes, self._encoder.batch_bytes * partitioner.count)
        # One call's rows then fill a batch by themselves: to join them with others is a copy.
        if partitioner.goes_anywhere(columns):
            enough = min(enough, self._encoder.batch_bytes // 2)
        for ready in accumulator.add(columns, enough):
            self._write_out(name, ready)
        if accumulator.age_seconds > self._linger_seconds:
            self._write_accumulated(name)
        if sum(each.held_bytes for each in self._accumulators.values()) > self._encoder.chunk_bytes:
            self._write_all_accumulated()
        self._sender.pump()

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has, as this writer knows it.

        Raises:
            ClientError: the topic does not exist.
        """
        return self._partitioner(topic).count

    def write_batch(self, partition: TopicPartition, batch: bytes, records: int) -> None:
        """Write a batch that is encoded already, as by `build_batch`. It is sent together with what
        is written next, or by `flush`: to the same broker in the same request.

        Args:
            records: how many records it has.

        Raises:
            ClientError: the topic does not exist.
        """
        self._check_open()
        if self._transaction is not None:
            self._transaction.check_open()
        self._find(partition.topic, fresh=False)
        buffer = SharedBuffer(len(batch), 1)
        self._sender.hold(buffer.size_bytes)
        data = memoryview(bytearray(batch))
        self._sender.push(partition, [PendingBatch(data, records, buffer)])

    def flush(self) -> None:
        """Return when all rows written so far are acknowledged as `acks` asks for.

        Raises:
            WriteFailed: some rows could not be written.
            ProducerFenced: another writer has taken over the transactional id.
        """
        self._check_open()
        self._write_all_accumulated()
        while not self._sender.is_idle:
            self._sender.wait()
        self._sender.raise_failure()

    def rest(self) -> None:
        """Flush, and leave the connections to other clients of this process until the next write
        (`reuses_connections`). What is known of the cluster, and the producer id, are kept."""
        self.flush()
        self._sender.close()
        self._pool.close()

    @property
    def written(self) -> dict[TopicPartition, AcknowledgedRecords]:
        """What each partition has acknowledged: how many records, and the first and last offset.
        Records of transactions count, committed or not."""
        return {
            partition: queue.acknowledged
            for partition, queue in sorted(self._sender.queues.items())
            if queue.acknowledged.records
        }

    @property
    def held_bytes(self) -> int:
        """How many bytes of encoded records are not acknowledged yet."""
        return self._sender.held_bytes

    def close(self) -> None:
        """Flush and disconnect. An open transaction is aborted. A second call does nothing."""
        if self._closed:
            return
        try:
            if self._transaction is None:
                self.flush()
            elif self._transaction.is_open:
                with suppress(ProducerFenced):  # the coordinator has aborted it already
                    self.abort()
        finally:
            self._disconnect()

    def abandon(self) -> None:
        """Disconnect at once. Rows that are not acknowledged may be written or not; a transaction
        stays open until it times out or another writer takes its id over."""
        if not self._closed:
            self._disconnect()

    def _disconnect(self) -> None:
        self._closed = True
        self._sender.close()
        self._pool.close()

    # -- transactions

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch of the records; -1 when there is none yet."""
        return self._sender.identity

    def init_transactions(self) -> None:
        """Take over the transactional id: the writer that had it before is fenced, and its open
        transaction is aborted. The first `begin` calls this by itself.

        Raises:
            ClientError: the coordinator refuses.
        """
        transaction = self._transactional()
        if self._sender.identity == NO_IDENTITY:
            self._sender.restart(transaction.take_over())
            self._sender.adds_partitions = transaction.second_version

    def begin(self) -> None:
        """Begin a transaction."""
        self.init_transactions()
        self._transactional().begin(self._sender.identity)

    def commit(self) -> None:
        """Flush, then make the records and the sent offsets visible.

        Raises:
            WriteFailed: some rows could not be written: abort.
            ProducerFenced: the transaction is aborted: another writer has taken over.
        """
        transaction = self._transactional()
        transaction.check_open()
        self.flush()
        self._continue_as(transaction.end(committed=True))

    def abort(self) -> None:
        """Abort: no reader of committed records sees what was written since `begin`.

        Raises:
            ProducerFenced: another writer has taken over; the records are aborted all the same.
        """
        transaction = self._transactional()
        transaction.check_open()
        self._accumulators.clear()
        broken = self._sender.discard()
        self._continue_as(transaction.end(committed=False, broken=broken))

    @contextmanager
    def transaction(self) -> Iterator["Writer"]:
        """Begin; commit at the end of the block, or abort if it raises. A block may also commit or
        abort by itself."""
        self.begin()
        try:
            yield self
            if self._transactional().is_open:
                self.commit()
        except ProducerFenced:
            raise  # the coordinator has aborted it already
        except BaseException as error:
            self._abort_after(error)
            raise

    def send_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        membership: GroupMembership = NO_MEMBERSHIP,
    ) -> None:
        """Commit a group's offsets with this transaction: they become visible exactly when its
        records do.

        Args:
            offsets: the next offset to read, with a note if it is an `OffsetAndMetadata`.
            membership: of a consumer that is a member, so that a replaced member is refused.
        """
        transaction = self._transactional()
        transaction.check_open()
        transaction.commit_offsets(
            group,
            {
                partition: each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
                for partition, each in offsets.items()
            },
            membership,
        )

    send_offsets_to_transaction = send_offsets

    def prepare(self) -> PreparedTransaction:
        """Flush and leave the transaction open for another process to end. Closes the writer.

        The result pickles, and any process can commit or abort with it until the transaction times
        out or another writer takes the id over.
        """
        transaction = self._transactional()
        transaction.check_open()
        self.flush()
        prepared = transaction.prepare()
        self._disconnect()
        return prepared

    def _transactional(self) -> WriterTransaction:
        self._check_open()
        if self._transaction is None:
            raise InvalidArgument("this writer has no transactional_id: give it one")
        return self._transaction

    def _continue_as(self, identity: ProducerIdentity) -> None:
        if identity != self._sender.identity:
            self._sender.restart(identity)

    def _abort_after(self, error: BaseException) -> None:
        """Abort because of an error. A second error is added to it as a note."""
        if self._closed or not self._transactional().is_open:
            return
        try:
            self.abort()
        except ClientError as second:
            error.add_note(f"the transaction could not be aborted either: {second}")

    # -- from rows to batches

    def _write_all_accumulated(self) -> None:
        for name in list(self._accumulators):
            self._write_accumulated(name)

    def _write_accumulated(self, topic: str) -> None:
        for ready in self._accumulators.pop(topic, Accumulator()).drain():
            self._write_out(topic, ready)

    def _write_out(self, topic: str, columns: Columns) -> None:
        """Encode rows and send what may be sent; wait while more than `memory_bytes` are held."""
        if self._idempotent and self._transaction is None and self._sender.identity == NO_IDENTITY:
            self._sender.restart(idempotent_identity(self._pool))
        for chunk in self._encoder.chunks(columns):
            buffer, placed = self._encoder.encode(self._partitioner(topic), chunk)
            self._sender.hold(buffer.size_bytes)
            for partition, batches in placed:
                self._sender.push(TopicPartition(topic, partition), batches)
            self._sender.pump()
            while self._sender.held_bytes > self._memory_bytes:
                self._sender.wait()

    def _partitioner(self, topic: str) -> RowPartitioner:
        known = self._partitioners.get(topic)
        now = time.monotonic()
        if known is None or now - known.since > self._pool.settings.metadata_max_age_ms / 1000:
            found = self._find(topic, fresh=known is not None)
            available = [each.index for each in found.partitions.values() if each.leader >= 0]
            known = RowPartitioner(topic, len(found.partitions), available, now)
            self._partitioners[topic] = known
        return known

    def _find(self, topic: str, *, fresh: bool) -> TopicMetadata:
        """Fetch a topic's metadata. A new topic is not known to all brokers yet: retry for a
        moment.

        Raises:
            ClientError: the topic does not exist, or this client may not see it.
        """
        found = self._sender.metadata(topic, fresh=fresh).topics[topic]
        for seconds in _NEW_TOPIC_PAUSES_SECONDS:
            if found.error is None or found.error.code not in _MAYBE_NEW:
                break
            time.sleep(seconds)
            found = self._sender.metadata(topic, fresh=True).topics[topic]
        if found.error is not None:
            raise ClientError(f"cannot write to topic {topic}: {found.error}") from found.error
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgument("the writer is closed: open a new one")

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif not self._closed:
            self._close_after(error)

    def _close_after(self, error: BaseException) -> None:
        """Close after an error in the block. Rows that were written before are still sent if
        possible: the error may have nothing to do with them. After Ctrl-C they are not. A second
        error is added to the first as a note."""
        if not isinstance(error, Exception):
            self._disconnect()
            return
        try:
            self.close()
        except ClientError as second:
            if second is not error:
                error.add_note(f"the writer could not be closed cleanly either: {second}")


def _check_options(
    acks: object,
    idempotent: bool,
    transactional_id: str | None,
    max_in_flight: int,
    memory_bytes: int,
) -> None:
    if acks not in _ACKS:
        raise InvalidArgument(f"acks is {acks!r}: it is 'all', 1 or 0")
    if idempotent and _ACKS[acks] != -1:
        raise InvalidArgument(f"an idempotent writer needs acks='all', not {acks!r}")
    if transactional_id is not None and not idempotent:
        raise InvalidArgument("a transactional writer is idempotent: leave idempotent=False out")
    if transactional_id == "":
        raise InvalidArgument("a transactional id cannot be empty")
    if max_in_flight < 1 or (idempotent and max_in_flight > MOST_IN_FLIGHT):
        raise InvalidArgument(
            f"max_in_flight is {max_in_flight}: it lies between 1 and {MOST_IN_FLIGHT} "
            "(or above, without idempotence)"
        )
    if memory_bytes < 1:
        raise InvalidArgument(f"memory_bytes is {memory_bytes}: it is at least 1")
