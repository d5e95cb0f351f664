"""Arrow tables in, records out: the bulk writer.

Theory of operation. `write` gathers rows until they are worth a request, cuts them into chunks,
finds each row's partition, encodes batches and hands them to the `Sender`, all in columns. Nothing
happens in the background: rows that are gathered and not yet sent go with the next `write` after
`linger_ms`, with `flush`, `commit` or `close`.

Rule 1: records of one partition are in the log in the order in which they were written, each of
them once, whatever fails on the way, as long as the writer is idempotent (it is by default).
Rule 2: at most about `memory_bytes` are held; then `write` waits for the brokers.
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
from headrace.client.write.placement import Columns, Placement
from headrace.client.write.prepared_transaction import PreparedTransaction
from headrace.client.write.producer_id import NO_IDENTITY, ProducerIdentity, idempotent_identity
from headrace.client.write.row_encoder import RowEncoder
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
"""A broker remembers the last five batches of a producer in each partition, and no more."""

_PATIENCE_WITH_NEW_TOPICS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)
_PERHAPS_NEW: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available}
)
_ACKS: Final[Mapping[object, int]] = {"all": -1, -1: -1, "1": 1, 1: 1, "0": 0, 0: 0}


class Writer:
    """Writes Arrow tables to topics of Headrace or Apache Kafka.

    The columns of a table are `key`, `value` (any binary or string type), `headers` (lists of
    structs with key and value, or maps), `timestamp` (any timestamp, or milliseconds) and
    `partition`, all optional. What a `Reader` yields can be written as it is. A row goes to the
    partition it names, else to that of its key's hash as with Kafka's own clients, else wherever
    the next batch goes.

    >>> import pyarrow as pa
    >>> settings = {"bootstrap.servers": address}
    >>> with Writer(settings, topic="clicks") as writer:
    ...     writer.write(pa.table({"key": ["alice", "bob"], "value": ["/home", "/cart"]}))
    ...     writer.flush()
    ...     sum(landed.records for landed in writer.written.values())
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
        idempotent: send again without doubling or reordering; needs acks="all".
        transactional_id: write in transactions under this name. Only one writer has it at a time.
        transaction_timeout_ms: how long one may stay open before the coordinator aborts it.
        codec, level: none, gzip, snappy, lz4 or zstd.
        batch_bytes: where a batch is full, before compression.
        max_in_flight: requests on their way to each broker.
        memory_bytes: about how much is held before `write` waits.
        linger_ms: how long a `write` of a few rows may wait for more of them.

    Raises:
        InvalidArgument: options that cannot be meant.
        ClientError: no broker could be reached, or it refuses to give us an identity.
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
        self._placements: dict[str, Placement] = {}
        self._gathered: dict[str, Accumulator] = {}
        self._linger_seconds = linger_ms / 1000
        self._closed = False

    # -- writing

    def write(self, columns: Columns, topic: str | None = None) -> None:
        """Write rows. Returns when they are encoded or gathered, not when they are written:
        `flush` and `commit` return then.

        The memory of `columns` may be kept until then and must not change.

        Raises:
            InvalidArgument: columns that no records can be made of; none of them is written.
            WriteFailed: earlier rows could not be written.
        """
        self._check_open()
        name = topic or self.topic
        if name is None:
            raise InvalidArgument("no topic: give one to write() or to the Writer")
        if self._transaction is not None:
            self._transaction.check_open()
        placement = self._placement(name)
        placement.check(columns)
        gathering = self._gathered.get(name)
        if gathering is None:
            gathering = self._gathered[name] = Accumulator()
        enough = min(self._encoder.chunk_bytes, self._encoder.batch_bytes * placement.count)
        for ready in gathering.add(columns, enough):
            self._write_out(name, ready)
        if gathering.age_seconds > self._linger_seconds:
            self._write_gathered(name)
        if sum(each.held_bytes for each in self._gathered.values()) > self._encoder.chunk_bytes:
            self._write_all_gathered()
        self._sender.pump()

    def flush(self) -> None:
        """Return when everything written so far has been acknowledged as `acks` asks for.

        Raises:
            WriteFailed: it was not, and will not be.
            ProducerFenced: somebody else has taken over the transactional id.
        """
        self._check_open()
        self._write_all_gathered()
        while not self._sender.is_idle:
            self._sender.wait()
        self._sender.check()

    @property
    def written(self) -> dict[TopicPartition, AcknowledgedRecords]:
        """What each partition has acknowledged: how many records, and the first and last offset.
        Records of transactions count, committed or not."""
        return {
            partition: lane.landed
            for partition, lane in sorted(self._sender.lanes.items())
            if lane.landed.records
        }

    @property
    def held_bytes(self) -> int:
        """How much memory encoded records hold at the moment."""
        return self._sender.held_bytes

    def close(self) -> None:
        """Flush and disconnect. An open transaction is aborted. Harmless twice."""
        if self._closed:
            return
        try:
            if self._transaction is None:
                self.flush()
            elif self._transaction.is_open:
                with suppress(ProducerFenced):  # it is aborted already
                    self.abort()
        finally:
            self._disconnect()

    def abandon(self) -> None:
        """Disconnect at once. What was not acknowledged may be written or not; a transaction stays
        open until it times out or another writer takes its id over. Harmless twice."""
        if not self._closed:
            self._disconnect()

    def _disconnect(self) -> None:
        self._closed = True
        self._sender.close()
        self._pool.close()

    # -- transactions

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch that records are written under; -1 when there is none yet."""
        return self._sender.identity

    def init_transactions(self) -> None:
        """Take over the transactional id: whoever wrote under it before is fenced, and what that
        one left open is aborted. `begin` does it if nobody did before.

        Raises:
            ClientError: the coordinator does not give it to us.
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
        """Write everything, then make it visible, with the offsets that were sent.

        Raises:
            WriteFailed: something could not be written: abort.
            ProducerFenced: the transaction has been aborted: somebody else has taken over.
        """
        transaction = self._transactional()
        transaction.check_open()
        self.flush()
        self._go_on_as(transaction.end(committed=True))

    def abort(self) -> None:
        """Let nobody see what was written since `begin`.

        Raises:
            ProducerFenced: somebody else has taken over; the records are aborted all the same.
        """
        transaction = self._transactional()
        transaction.check_open()
        self._gathered.clear()
        broken = self._sender.discard()
        self._go_on_as(transaction.end(committed=False, broken=broken))

    @contextmanager
    def transaction(self) -> Iterator["Writer"]:
        """Begin; commit at the end of the block, or abort if it raises. A block that has ended the
        transaction itself has done so."""
        self.begin()
        try:
            yield self
            if self._transactional().is_open:
                self.commit()
        except ProducerFenced:
            raise  # there is nothing left that we could abort
        except BaseException as error:
            self._abort_after(error)
            raise

    def send_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        membership: GroupMembership = NO_MEMBERSHIP,
    ) -> None:
        """Commit a group's offsets with this transaction: what was read counts as read exactly
        when what was made of it is visible.

        Args:
            offsets: the next offset to read, with a note if it is a `OffsetAndMetadata`.
            membership: of a consumer that is a member, so that a replaced one is refused.
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
        """Write everything and leave the transaction open for somebody else to end.

        The writer is closed then. What is returned pickles and is enough to commit or abort, from
        any process, until the transaction times out or another writer takes the id over.
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

    def _go_on_as(self, identity: ProducerIdentity) -> None:
        if identity != self._sender.identity:
            self._sender.restart(identity)

    def _abort_after(self, error: BaseException) -> None:
        """Abort because of an error, which must not be hidden by another one."""
        if self._closed or not self._transactional().is_open:
            return
        try:
            self.abort()
        except ClientError as second:
            error.add_note(f"the transaction could not be aborted either: {second}")

    # -- from rows to batches

    def _write_all_gathered(self) -> None:
        for name in list(self._gathered):
            self._write_gathered(name)

    def _write_gathered(self, topic: str) -> None:
        for ready in self._gathered.pop(topic, Accumulator()).take():
            self._write_out(topic, ready)

    def _write_out(self, topic: str, columns: Columns) -> None:
        """Encode some rows and send what may be sent, waiting while too much is held."""
        if self._idempotent and self._transaction is None and self._sender.identity == NO_IDENTITY:
            self._sender.restart(idempotent_identity(self._pool))
        for chunk in self._encoder.chunks(columns):
            room, placed = self._encoder.encode(self._placement(topic), chunk)
            self._sender.hold(room.size_bytes)
            for partition, batches in placed:
                self._sender.push(TopicPartition(topic, partition), batches)
            self._sender.pump()
            while self._sender.held_bytes > self._memory_bytes:
                self._sender.wait()

    def _placement(self, topic: str) -> Placement:
        known = self._placements.get(topic)
        now = time.monotonic()
        if known is None or now - known.since > self._pool.settings.metadata_max_age_ms / 1000:
            found = self._find(topic, fresh=known is not None)
            available = [each.index for each in found.partitions.values() if each.leader >= 0]
            known = Placement(topic, len(found.partitions), available, now)
            self._placements[topic] = known
        return known

    def _find(self, topic: str, *, fresh: bool) -> TopicMetadata:
        """What the cluster says of a topic. One that was made a moment ago is not known to all
        brokers yet: it is asked for again for a little while.

        Raises:
            ClientError: there is none, or we may not see it.
        """
        found = self._sender.metadata(topic, fresh=fresh).topics[topic]
        for seconds in _PATIENCE_WITH_NEW_TOPICS_SECONDS:
            if found.error is None or found.error.code not in _PERHAPS_NEW:
                break
            time.sleep(seconds)
            found = self._sender.metadata(topic, fresh=True).topics[topic]
        if found.error is not None:
            raise ClientError(f"cannot write to topic {topic}: {found.error}")
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
            self._leave_after(error)

    def _leave_after(self, error: BaseException) -> None:
        """What was written before an error is still sent if it can be: the error may have nothing
        to do with it. Whoever presses Ctrl-C does not wait for that. Nothing here may hide the
        error."""
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
