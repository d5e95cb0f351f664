"""The transaction coordinator of this broker: finds the shard of an id and hands requests to it.

Rule 1: a shard answers COORDINATOR_LOAD_IN_PROGRESS until its partition has been replayed, and
COORDINATOR_NOT_AVAILABLE once it is lost. Clients retry both.
Rule 2: nothing here raises when the coordinator refuses a request: every reply carries its error,
so that no client ever reads UNKNOWN_SERVER_ERROR, after which some of them stop for good.
Rule 3: no record of a transaction is appended anywhere before `join` returned that its partition is
in the transaction. Otherwise no coordinator would write its marker, and readers would wait there
for ever.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

import structlog

from headrace.broker.config.internal_topic import TRANSACTION_STATE
from headrace.broker.coordinator.coordinator_host import CoordinatorHost
from headrace.broker.coordinator.key_queue import KeyQueue
from headrace.broker.coordinator.marker_writer import MarkerWriter, OffsetsEnded
from headrace.broker.coordinator.transaction_report import TransactionReport
from headrace.broker.coordinator.transaction_shard import Decide, TransactionShard
from headrace.broker.coordinator.transaction_verifier import Refused, TransactionVerifier
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import HostedTopic
from headrace.model.coordinator import coordinator_partition
from headrace.model.error import HeadraceError, InvalidArgument
from headrace.model.ids import BrokerId, ProducerId, TopicId, TopicPartition
from headrace.transactions.config import TransactionConfig
from headrace.transactions.effect import Token, TransactionEffects
from headrace.transactions.error import TransactionError
from headrace.transactions.listing import TransactionDescription
from headrace.transactions.message import (
    AddPartitions,
    AddReply,
    EndReply,
    EndTransaction,
    InitProducerId,
    InitReply,
    VerifyReply,
)
from headrace.transactions.metadata import TransactionMetadata
from headrace.transactions.registry import TransactionRegistry

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer", InitReply, AddReply, EndReply)


class TransactionRefusal(HeadraceError):
    """This broker cannot answer: it is not the coordinator, or still loads."""

    def __init__(self, error: TransactionError) -> None:
        super().__init__(f"the transaction coordinator answers {error.name}")
        self.error = error


class TransactionCoordinator:
    """All shards of this broker. Lives on the event loop."""

    def __init__(
        self, host: CoordinatorHost, config: TransactionConfig, offsets_ended: OffsetsEnded
    ) -> None:
        self._verifier = TransactionVerifier(host)
        self.markers = MarkerWriter(host.topics, offsets_ended, self._marker_written)
        # Produce requests of an id that had to wait; later ones of the same id wait behind them.
        self.produce_queue = KeyQueue()
        self._host = host
        self._config = config
        self._report = TransactionReport(host.loop.time)
        self._shards: dict[int, TransactionShard] = {}
        self._loads: set[asyncio.Task[None]] = set()

    # -- shards

    def load(self, partitions: Iterable[Partition]) -> None:
        """Begin to lead shards: replay their partitions, in the background if there is anything.

        Every other topic must be served by then: a prepared transaction writes its markers.
        """
        for partition in partitions:
            if partition.name.partition in self._shards:
                continue
            shard = self._shards[partition.name.partition] = self._make(partition)
            if shard.empty:
                shard.open()
                continue
            task = self._host.loop.create_task(shard.load())
            self._loads.add(task)
            task.add_done_callback(self._loads.discard)

    def _make(self, partition: Partition) -> TransactionShard:
        registry = TransactionRegistry(
            coordinator_epoch=partition.leader_epoch,
            take_id=self._host.producer_ids.next,
            config=self._config,
            now_ms=self._host.clock.monotonic_ms(),
            wall_minus_monotonic_ms=self._wall_minus_monotonic_ms,
        )
        return TransactionShard(
            self._host, self.markers, self._report, partition, registry, self._reload
        )

    def _wall_minus_monotonic_ms(self) -> int:
        """Return the wall clock minus the monotonic clock."""
        return self._host.clock.wall_ms() - self._host.clock.monotonic_ms()

    def _reload(self, shard: TransactionShard) -> None:
        """Load a lost shard again from its log, unless that has happened, or must not."""
        index = shard.partition.name.partition
        if self._shards.get(index) is shard and shard.reloadable:
            del self._shards[index]
            self.load([shard.partition])

    def unload(self, index: int) -> None:
        """Stop serving a shard: another broker leads it, and continues what was begun."""
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.lose()

    def topics_deleted(self, topics: Mapping[str, TopicId]) -> None:
        """Stop when the coordinator's own topic was deleted: it has no transactions left."""
        if TRANSACTION_STATE in topics:
            self.stop()

    def stop(self) -> None:
        """Serve nothing any more; the broker that loads the shards next continues from the log."""
        for shard in self._shards.values():
            shard.lose()
        for task in self._loads:
            task.cancel()
        self._verifier.stop()
        self._shards.clear()

    async def _shard(self, transactional_id: str) -> TransactionShard:
        """Return the shard of an id, once no change of that id is under way. The first id creates
        the topic.

        Raises:
            TransactionRefusal: this broker cannot answer, or no record can hold the id.
        """
        while True:
            try:
                topic = await self._host.controller.internal_topic(TRANSACTION_STATE)
            except HeadraceError as error:
                log.error("transaction_topic_missing", reason=str(error))
                raise TransactionRefusal(TransactionError.COORDINATOR_NOT_AVAILABLE) from error
            shard = self._shard_at(_index(transactional_id, topic))
            busy = shard.busy.get(transactional_id)
            if busy is None:
                return shard
            await asyncio.wait((busy,))

    def _shard_at(self, index: int) -> TransactionShard:
        shard = self._shards.get(index)
        if shard is None:
            raise TransactionRefusal(TransactionError.NOT_COORDINATOR)
        if shard.reloadable:
            self._reload(shard)
            raise TransactionRefusal(TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
        if shard.lost:
            raise TransactionRefusal(TransactionError.COORDINATOR_NOT_AVAILABLE)
        if shard.loading:
            raise TransactionRefusal(TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def _shard_now(self, transactional_id: str, unknown: TransactionError) -> TransactionShard:
        """Return the shard of an id, busy or not. Without the topic every id is `unknown`.

        Raises:
            TransactionRefusal: this broker cannot answer, or no record can hold the id.
        """
        topic = self._host.topics.by_name(TRANSACTION_STATE)
        if topic is None:
            raise TransactionRefusal(unknown)
        return self._shard_at(_index(transactional_id, topic))

    # -- requests

    async def init_producer_id(self, event: InitProducerId) -> InitReply:
        """Let a producer take over an id. If that aborts an open transaction the reply is
        CONCURRENT_TRANSACTIONS, so the coordinator retries once itself, which spares the client its
        backoff of up to half a second."""
        for _ in range(2):
            reply = await self._ask(
                event.transactional_id,
                InitReply,
                lambda registry, token, now_ms: registry.init_producer_id(token, event, now_ms),
            )
            if reply.error is not TransactionError.CONCURRENT_TRANSACTIONS:
                break
        return reply

    async def add_partitions(self, event: AddPartitions) -> AddReply:
        return await self._ask(
            event.transactional_id,
            AddReply,
            lambda registry, token, now_ms: registry.add_partitions(token, event, now_ms),
        )

    async def end_transaction(self, event: EndTransaction) -> EndReply:
        known: list[TransactionMetadata | None] = [None]

        def decide(registry: TransactionRegistry, token: Token, now_ms: int) -> TransactionEffects:
            known[0] = registry.metadata(event.transactional_id)
            return registry.end_transaction(token, event, now_ms)

        reply = await self._ask(event.transactional_id, EndReply, decide)
        self._report.end_refused(event, reply.error, known[0])
        return reply

    async def _ask(self, transactional_id: str, kind: type[Answer], decide: Decide) -> Answer:
        try:
            shard = await self._shard(transactional_id)
        except TransactionRefusal as refusal:
            return kind(error=refusal.error)
        return cast(Answer, await shard.hand_over(decide))

    # -- partitions

    def verify(self, event: AddPartitions) -> VerifyReply:
        """Return which partitions are in the transaction (AddPartitionsToTxn, verify_only)."""
        unknown = TransactionError.INVALID_PRODUCER_ID_MAPPING
        try:
            shard = self._shard_now(event.transactional_id, unknown)
        except TransactionRefusal as refusal:
            return VerifyReply(error=refusal.error)
        return shard.registry.verify_partitions(event)

    def join(self, event: AddPartitions, *, implicit: bool) -> "Refused | asyncio.Future[None]":
        """Make sure that the partitions of records that are about to be appended are in the
        transaction.

        With `implicit` (KIP-890: Produce 12, TxnOffsetCommit 5) those that are not are added;
        otherwise they must have been. Append before anything else happens on the loop, or hand the
        records to the broker's `batch_opener`, which refuses them when the transaction ends.

        Returns:
            the refused partitions; or a future: call again when it is done.
        """
        try:
            coordinator = self._elsewhere(event.transactional_id)
        except TransactionRefusal as refusal:
            return dict.fromkeys(event.partitions, refusal.error)
        if coordinator is not None:
            return self._join_elsewhere(coordinator, event, implicit=implicit)
        refused = _refused(event, self.verify(event))
        if not refused:
            return refused
        try:
            shard = self._shard_now(event.transactional_id, TransactionError.NOT_COORDINATOR)
        except TransactionRefusal:
            return refused
        busy = shard.busy.get(event.transactional_id)
        if busy is not None:
            return busy
        if not implicit:
            return refused
        added = shard.hand_over(
            lambda registry, token, now_ms: registry.add_partitions(token, event, now_ms)
        )
        if not added.done():
            return shard.busy[event.transactional_id]
        return _refused(event, VerifyReply(error=cast(AddReply, added.result()).error))

    def _elsewhere(self, transactional_id: str) -> BrokerId | None:
        """Return the other broker that coordinates an id; None if this one does.

        Raises:
            TransactionRefusal: no record can hold the id.
        """
        topic = self._host.topics.by_name(TRANSACTION_STATE)
        if topic is None:
            return None
        name = TopicPartition(TRANSACTION_STATE, _index(transactional_id, topic))
        return self._host.topics.leader_elsewhere(name)

    def _join_elsewhere(
        self, coordinator: BrokerId, event: AddPartitions, *, implicit: bool
    ) -> "Refused | asyncio.Future[None]":
        """Verify with the coordinator the partitions that have no open transaction of this
        producer."""
        missing = [
            name
            for name in event.partitions
            if (partition := self._host.topics.find(name.topic, None, name.partition)) is None
            or not partition.log.has_open_transaction(event.producer_id, event.producer_epoch)
        ]
        if not missing:
            return {}
        return self._verifier.verify(coordinator, event, implicit=implicit)

    async def joined(self, event: AddPartitions, *, implicit: bool) -> Refused:
        """Return the refused partitions, as `join`, after waiting where it must."""
        while isinstance(joined := self.join(event, implicit=implicit), asyncio.Future):
            await asyncio.wait((joined,))
        return joined

    def _marker_written(self, name: TopicPartition, producer_id: ProducerId) -> None:
        """Forget that records of a transaction may be appended: it has ended there."""
        self._verifier.marker_written(producer_id)
        self._host.batch_opener.transaction_ended(name, producer_id)

    # -- listings

    def registries(self) -> list[TransactionRegistry]:
        """Return the registries of all shards, for listings.

        Raises:
            TransactionRefusal: some are not loaded, so that a list would not be whole.
        """
        return [self._shard_at(index).registry for index in sorted(self._shards)]

    def describe(self, transactional_id: str) -> TransactionDescription | TransactionError:
        unknown = TransactionError.TRANSACTIONAL_ID_NOT_FOUND
        try:
            shard = self._shard_now(transactional_id, unknown)
        except TransactionRefusal as refusal:
            return refusal.error
        return shard.registry.describe(transactional_id)


def _index(transactional_id: str, topic: HostedTopic) -> int:
    """Return which shard an id belongs to."""
    try:
        return coordinator_partition(transactional_id, len(topic.partitions))
    except InvalidArgument as error:
        raise TransactionRefusal(TransactionError.INVALID_REQUEST) from error


def _refused(event: AddPartitions, reply: VerifyReply) -> Refused:
    if reply.error is not TransactionError.NONE:
        return dict.fromkeys(event.partitions, reply.error)
    return {
        partition: error
        for partition, error in reply.partitions.items()
        if error is not TransactionError.NONE
    }
