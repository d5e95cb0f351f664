"""Carries out what the group state machines decide: append their records, then release replies.

One shard is one partition of `__consumer_offsets`. A broker coordinates the groups of the shards it
leads; `groups.coordinator.GroupRegistry` decides, this file does the I/O around it.

Rule 1: a shard answers COORDINATOR_LOAD_IN_PROGRESS until its partition has been replayed; clients
retry that by themselves.
Rule 2: records are appended before their replies leave, and with group commit they are on disk.
Rule 3: an append that failed is rejected, so state and log never differ.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

import structlog

from headrace.broker.host import Host
from headrace.broker.partition import Partition
from headrace.broker.topics import CONSUMER_OFFSETS
from headrace.groups.config import GroupConfig
from headrace.groups.coordinator import GroupRegistry
from headrace.groups.effect import Effects, Producer, Token
from headrace.groups.error import GroupError, Refusal
from headrace.groups.record_codec import encode
from headrace.groups.shard import shard_of
from headrace.groups.topic import Topic as GroupTopic
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import ProducerEpoch, ProducerId
from headrace.records.batch import Batch, iter_batches
from headrace.records.control import ControlType, read_control
from headrace.records.record import build_batch, iter_records

log = structlog.get_logger(__name__)

_READ_BYTES = 1024 * 1024
Decide = Callable[[GroupRegistry, Token, int], Effects]
"""Hands a request to a registry: (registry, token, now) -> effects."""


class BrokerTopics:
    """The broker's topics as the registries want to see them."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker

    @property
    def version(self) -> int:
        return self._broker.topics.version

    def by_name(self, name: str) -> GroupTopic | None:
        topic = self._broker.topics.by_name(name)
        if topic is None:
            return None
        return GroupTopic(topic.name, topic.topic_id, len(topic.partitions))

    def by_id(self, topic_id: UUID) -> GroupTopic | None:
        topic = self._broker.topics.by_id(topic_id)
        return None if topic is None else self.by_name(topic.name)

    def names(self) -> Iterable[str]:
        return [topic.name for topic in self._broker.topics if not topic.internal]


class _Shard:
    """The groups of one partition, and the timer that wakes them."""

    __slots__ = ("loading", "partition", "registry", "timer")

    def __init__(self, partition: Partition, registry: GroupRegistry) -> None:
        self.partition = partition
        self.registry = registry
        self.loading = True
        self.timer: asyncio.TimerHandle | None = None


class GroupCoordinator:
    """All shards of this broker. Lives on the event loop; only replaying runs in a thread."""

    def __init__(self, broker: Host, config: GroupConfig) -> None:
        self._broker = broker
        self._config = config
        self._topics = BrokerTopics(broker)
        self._shards: dict[int, _Shard] = {}
        self._loads: set[asyncio.Task[None]] = set()

    def load(self, partitions: Iterable[Partition]) -> None:
        """Begin to lead shards: replay their partitions, in the background."""
        for partition in partitions:
            index = partition.name.partition
            if index in self._shards:
                continue
            shard = _Shard(partition, GroupRegistry(self._config, self._topics))
            self._shards[index] = shard
            task = self._broker.loop.create_task(self._load(shard))
            self._loads.add(task)
            task.add_done_callback(self._loads.discard)

    async def _load(self, shard: _Shard) -> None:
        if shard.partition.log.log_end_offset > shard.partition.log.log_start_offset:
            try:
                await self._broker.in_thread(lambda: _replay(shard.partition, shard.registry))
            except HeadraceError as error:
                log.error("cannot load groups", shard=str(shard.partition.name), reason=str(error))
                return
        shard.registry.start(self._now_ms)
        shard.loading = False
        self._schedule(shard)

    @property
    def _now_ms(self) -> int:
        return self._broker.clock.wall_ms()

    # -- requests

    async def ask(self, group_id: str, decide: Decide) -> object:
        """Hand a request to the group's registry and wait for the reply.

        Raises:
            Refusal: this broker cannot say: not the coordinator, or still loading.
        """
        shard = await self.shard(group_id)
        reply: asyncio.Future[object] = self._broker.loop.create_future()
        self._carry_out(shard, decide(shard.registry, reply, self._now_ms))
        return await reply

    async def shard(self, group_id: str) -> _Shard:
        """The loaded shard of a group; the topic is made when the first group comes."""
        topic = await self._broker.internal_topic(CONSUMER_OFFSETS)
        shard = self._shards.get(shard_of(group_id, len(topic.partitions)))
        if shard is None:
            raise Refusal(GroupError.NOT_COORDINATOR, f"group {group_id} is looked after elsewhere")
        if shard.loading:
            raise Refusal(
                GroupError.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id} is still being loaded"
            )
        return shard

    async def registry(self, group_id: str) -> GroupRegistry:
        """For reading only; whatever changes goes through `ask`."""
        return (await self.shard(group_id)).registry

    def registries(self) -> Iterator[GroupRegistry]:
        """All that are loaded, for listings."""
        return (shard.registry for shard in self._shards.values() if not shard.loading)

    # -- events

    def transaction_ended(self, partition: int, producer_id: ProducerId, *, commit: bool) -> None:
        """A marker was appended to a shard's partition: offsets in it count, or are dropped."""
        shard = self._shards.get(partition)
        if shard is not None and not shard.loading:
            shard.registry.complete_transaction(producer_id, commit=commit)

    def topics_deleted(self, names: set[str]) -> None:
        for shard in self._loaded():
            self._carry_out(shard, shard.registry.forget_topics(names))

    def expire(self) -> None:
        """Drop old offsets and empty groups; called every offsets.retention.check.interval.ms."""
        for shard in self._loaded():
            for group_id in shard.registry.group_ids():
                self._carry_out(shard, shard.registry.expire(group_id, self._now_ms))

    def stop(self) -> None:
        """Answer whoever still waits; the next coordinator goes on from the log."""
        for shard in self._loaded():
            if shard.timer is not None:
                shard.timer.cancel()
            self._release(shard.registry.unload())
        for task in self._loads:
            task.cancel()
        self._shards.clear()

    def _loaded(self) -> list[_Shard]:
        return [shard for shard in self._shards.values() if not shard.loading]

    # -- the seam to the log

    def _carry_out(self, shard: _Shard, effects: Effects) -> None:
        if effects.records:
            try:
                end = self._append(shard, effects)
            except HeadraceError as error:
                log.error("cannot append", shard=str(shard.partition.name), reason=str(error))
                effects = shard.registry.reject(self._now_ms)
            else:
                shard.registry.settle()
                if shard.partition.log.config.flush_messages == 1:
                    self._release_when_synced(shard, end, effects)
                    self._schedule(shard)
                    return
        self._release(effects)
        self._schedule(shard)

    def _append(self, shard: _Shard, effects: Effects) -> int:
        producer = effects.producer or Producer(ProducerId(-1), ProducerEpoch(-1))
        batch = build_batch(
            [encode(record) for record in effects.records],
            self._now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transactional=effects.producer is not None,
        )
        return shard.partition.append(batch, from_client=False).last_offset + 1

    def _release_when_synced(self, shard: _Shard, end: int, effects: Effects) -> None:
        def synced(future: "asyncio.Future[object]") -> None:
            if future.cancelled() or future.exception() is not None:
                self._release(shard.registry.unload())
                self._shards.pop(shard.partition.name.partition, None)
            else:
                self._release(effects)

        self._broker.when_synced(shard.partition, end).add_done_callback(synced)

    def _release(self, effects: Effects) -> None:
        for reply in effects.replies:
            waiting = reply.token
            if isinstance(waiting, asyncio.Future) and not waiting.done():
                waiting.set_result(reply.answer)

    def _schedule(self, shard: _Shard) -> None:
        if shard.timer is not None:
            shard.timer.cancel()
            shard.timer = None
        deadline_ms = shard.registry.deadline_ms()
        if deadline_ms is not None:
            wait_ms = max(0, deadline_ms - self._now_ms)
            shard.timer = self._broker.loop.call_later(wait_ms / 1000, self._tick, shard)

    def _tick(self, shard: _Shard) -> None:
        shard.timer = None
        effects = shard.registry.tick(self._now_ms)
        if effects is None:
            self._schedule(shard)
        else:
            self._carry_out(shard, effects)


def _replay(partition: Partition, registry: GroupRegistry) -> None:
    """Read the whole partition into the registry; runs in a thread, before anyone else may look."""
    for batch in stored_batches(partition):
        if batch.is_control:
            marker = read_control(batch)
            if marker is not None and marker.ends_transaction:
                registry.complete_transaction(
                    ProducerId(marker.producer_id), commit=marker.type is ControlType.COMMIT
                )
            continue
        producer = None
        if batch.is_transactional:
            producer = Producer(ProducerId(batch.producer_id), ProducerEpoch(batch.producer_epoch))
        for record in iter_records(batch):
            if record.key is not None:
                registry.replay(record.key, record.value, producer)


def stored_batches(partition: Partition) -> Iterator[Batch]:
    """Every batch of an internal partition, from its start to its end.

    Raises:
        StorageError: the log cannot be read to its end.
    """
    at: int = partition.log.log_start_offset
    while at < partition.log.log_end_offset:
        piece = partition.log.read(at, _READ_BYTES, max_offset=partition.log.log_end_offset)
        start = at
        for batch in iter_batches(piece.read()):
            if batch.next_offset > at:
                yield batch
                at = batch.next_offset
        if at == start:
            raise StorageError(f"{partition.name} cannot be read past offset {at}")
