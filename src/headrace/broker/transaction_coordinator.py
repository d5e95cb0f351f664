"""Carries out what the transaction state machine decides: append, settle, reply, write markers.

One shard is one partition of `__transaction_state`; `transactions.registry.TransactionRegistry`
decides, this file does the I/O around it.

Rule 1: a shard answers COORDINATOR_LOAD_IN_PROGRESS until its partition has been replayed.
Rule 2: a reply leaves after its record is in the log; with group commit, after it is on disk.
Rule 3: markers are appended here and now, because this broker leads every partition. (In a cluster
they go to the leaders by WriteTxnMarkers.) A partition that is gone needs none.
Rule 4: after an append that failed in an unknown way the shard is loaded again before it answers.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import structlog

from headrace.broker.group_coordinator import stored_batches
from headrace.broker.host import Host
from headrace.broker.partition import Partition
from headrace.broker.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.model.coordinator import coordinator_partition
from headrace.model.error import HeadraceError
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.records.batch import Batch
from headrace.records.record import build_batch, iter_records
from headrace.transactions.config import TransactionConfig
from headrace.transactions.effect import Effects, Token, WriteMarkers
from headrace.transactions.error import TransactionError
from headrace.transactions.event import AddPartitions, AddReply
from headrace.transactions.metadata import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from headrace.transactions.record import Record
from headrace.transactions.registry import TransactionRegistry

log = structlog.get_logger(__name__)

Decide = Callable[[TransactionRegistry, Token, int], Effects]


class OffsetsEnded(Protocol):
    """Told when a marker went into a partition of `__consumer_offsets`."""

    def __call__(self, partition: int, producer_id: ProducerId, *, commit: bool) -> None: ...


class TransactionRefusal(HeadraceError):
    """This broker cannot say: not the coordinator, or still loading."""

    def __init__(self, error: TransactionError) -> None:
        super().__init__(f"the transaction coordinator answers {error.name}")
        self.error = error


class _Shard:
    __slots__ = ("loading", "partition", "registry", "timer")

    def __init__(self, partition: Partition, registry: TransactionRegistry) -> None:
        self.partition = partition
        self.registry = registry
        self.loading = True
        self.timer: asyncio.TimerHandle | None = None


class TransactionCoordinator:
    """All shards of this broker. Lives on the event loop; only replaying runs in a thread."""

    def __init__(self, host: Host, config: TransactionConfig, offsets_ended: OffsetsEnded) -> None:
        self._host = host
        self._config = config
        self._offsets_ended = offsets_ended
        self._shards: dict[int, _Shard] = {}
        self._loads: set[asyncio.Task[None]] = set()

    @property
    def _now_ms(self) -> int:
        return self._host.clock.wall_ms()

    # -- shards

    def load(self, partitions: Iterable[Partition]) -> None:
        """Begin to lead shards: replay their partitions, in the background."""
        for partition in partitions:
            if partition.name.partition not in self._shards:
                self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        registry = TransactionRegistry(
            coordinator_epoch=partition.leader_epoch,
            take_id=self._host.take_producer_id,
            config=self._config,
            now_ms=self._now_ms,
        )
        shard = _Shard(partition, registry)
        self._shards[partition.name.partition] = shard
        task = self._host.loop.create_task(self._load(shard))
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)

    async def _load(self, shard: _Shard) -> None:
        try:
            records = await self._host.in_thread(lambda: list(_records(shard.partition)))
            due = shard.registry.load(records, self._now_ms)
        except HeadraceError as error:
            name = str(shard.partition.name)
            log.error("cannot load transactions", shard=name, reason=str(error))
            return
        shard.loading = False
        for effects in due:
            self._carry_out(shard, effects)
        self._schedule(shard)

    async def shard(self, transactional_id: str) -> _Shard:
        """The loaded shard of an id; the topic is made when the first one comes.

        Raises:
            TransactionRefusal: it is not here, or not loaded yet.
        """
        topic = await self._host.internal_topic(TRANSACTION_STATE)
        return self._shard_at(coordinator_partition(transactional_id, len(topic.partitions)))

    def _shard_at(self, index: int) -> _Shard:
        shard = self._shards.get(index)
        if shard is None:
            raise TransactionRefusal(TransactionError.NOT_COORDINATOR)
        if shard.loading:
            raise TransactionRefusal(TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def shard_now(self, transactional_id: str) -> _Shard:
        """As `shard`, without waiting: on the produce path the topic must exist already."""
        topic = self._host.topics.by_name(TRANSACTION_STATE)
        if topic is None:
            raise TransactionRefusal(TransactionError.INVALID_TXN_STATE)
        return self._shard_at(coordinator_partition(transactional_id, len(topic.partitions)))

    def registries(self) -> Iterator[TransactionRegistry]:
        return (shard.registry for shard in self._shards.values() if not shard.loading)

    def stop(self) -> None:
        for shard in self._shards.values():
            if shard.timer is not None:
                shard.timer.cancel()
        for task in self._loads:
            task.cancel()
        self._shards.clear()

    # -- requests

    async def ask(self, transactional_id: str, decide: Decide) -> object:
        """Hand a request to the id's registry and wait for the reply."""
        return await self.ask_shard(await self.shard(transactional_id), decide)

    def ask_shard(self, shard: _Shard, decide: Decide) -> "asyncio.Future[object]":
        """The same for a known shard. Without group commit the reply is there on return."""
        reply: asyncio.Future[object] = self._host.loop.create_future()
        self._carry_out(shard, decide(shard.registry, reply, self._now_ms))
        self._schedule(shard)
        return reply

    def join(
        self, transactional_id: str, partition: TopicPartition, batch: Batch, *, implicit: bool
    ) -> "asyncio.Future[object] | None":
        """A transactional batch is about to be appended: is the partition in the transaction?

        With `implicit` (KIP-890, Produce 12) it is added; otherwise it must have been. The answer
        is None when the batch may be appended now, else it is done when that is durable too.

        Raises:
            TransactionRefusal: the batch must not be appended.
        """
        shard = self.shard_now(transactional_id)
        event = AddPartitions(
            transactional_id=transactional_id,
            producer_id=ProducerId(batch.producer_id),
            producer_epoch=ProducerEpoch(batch.producer_epoch),
            partitions=frozenset((partition,)),
            client_version=EPOCH_BUMP_VERSION if implicit else CLASSIC_VERSION,
        )
        verified = shard.registry.verify_partitions(event)
        error = verified.error
        if error is TransactionError.NONE:
            error = verified.partitions.get(partition, TransactionError.NONE)
        if error is TransactionError.NONE:
            return None
        if not implicit:
            raise TransactionRefusal(error)
        added = self.ask_shard(
            shard, lambda registry, token, now_ms: registry.add_partitions(token, event, now_ms)
        )
        if not added.done():
            return added
        reply = added.result()
        assert isinstance(reply, AddReply)
        if reply.error is not TransactionError.NONE:
            raise TransactionRefusal(reply.error)
        return None

    # -- the seam to the log

    def _carry_out(self, shard: _Shard, effects: Effects) -> None:
        """Append, settle and go on with what is due next, until nothing is."""
        if effects.records:
            try:
                end = self._append(shard, effects)
            except HeadraceError as error:
                log.error("cannot append", shard=str(shard.partition.name), reason=str(error))
                self._release(shard.registry.reject(effects, self._now_ms))
                return
            following = shard.registry.settle(effects, self._now_ms)
            self._release(effects, shard, end)
            self._carry_out(shard, following)
            return
        self._release(effects)
        for markers in effects.markers:
            self._carry_out(shard, self._write_markers(shard, markers))

    def _append(self, shard: _Shard, effects: Effects) -> int:
        batch = build_batch(effects.records, self._now_ms)
        return shard.partition.append(batch, from_client=False).last_offset + 1

    def _release(self, effects: Effects, shard: _Shard | None = None, end: int = 0) -> None:
        if not effects.replies:
            return
        if shard is not None and shard.partition.log.config.flush_messages == 1:
            synced = self._host.when_synced(shard.partition, end)
            synced.add_done_callback(lambda _: self._release(effects))
            return
        for reply in effects.replies:
            waiting = reply.token
            if isinstance(waiting, asyncio.Future) and not waiting.done():
                waiting.set_result(reply.answer)

    def _write_markers(self, shard: _Shard, markers: WriteMarkers) -> Effects:
        written: list[TopicPartition] = []
        failed = False
        for name in sorted(markers.partitions):
            try:
                self._write_marker(markers, name)
            except HeadraceError as error:
                log.warning("cannot write a marker", partition=str(name), reason=str(error))
                failed = True
            else:
                written.append(name)
        following = shard.registry.markers_written(markers, written, self._now_ms)
        if failed:
            shard.registry.markers_failed(markers, self._now_ms)
        return following

    def _write_marker(self, markers: WriteMarkers, name: TopicPartition) -> None:
        partition = self._host.topics.find(name.topic, None, name.partition)
        if partition is None:
            return
        partition.append_marker(
            markers.producer_id,
            markers.producer_epoch,
            commit=markers.commit,
            coordinator_epoch=markers.coordinator_epoch,
        )
        if name.topic == CONSUMER_OFFSETS:
            self._offsets_ended(name.partition, markers.producer_id, commit=markers.commit)

    def _schedule(self, shard: _Shard) -> None:
        if shard.timer is not None:
            shard.timer.cancel()
        wait_ms = max(1, shard.registry.next_deadline_ms() - self._now_ms)
        shard.timer = self._host.loop.call_later(wait_ms / 1000, self._tick, shard)

    def _tick(self, shard: _Shard) -> None:
        shard.timer = None
        for effects in shard.registry.tick(self._now_ms):
            self._carry_out(shard, effects)
        self._schedule(shard)


def _records(partition: Partition) -> Iterator[Record]:
    for batch in stored_batches(partition):
        if not batch.is_control:
            for record in iter_records(batch):
                if record.key is not None:
                    yield record.key, record.value
