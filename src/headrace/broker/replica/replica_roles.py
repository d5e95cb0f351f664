"""What this broker does with each partition: lead it, follow its leader, or neither.

The cluster's state decides (`TopicRecord`); `ReplicaRoles` makes it so. It opens and resigns
partitions, starts and stops copying, and hands the partitions of an internal topic to their
coordinator. It waits for no disk: the caller creates missing logs, and deletes unused ones after.
Only a log that is being truncated is waited for before it is led (`log_truncations`, rule 2).

Rule 1: a topic of many partitions changes in slices, and others run on the loop in between. A
request sees each partition as it was or as it will be: its entry in the topic's record, and what
this broker does with it, change in one slice.
Rule 2: a new topic, and the new partitions of a topic, are seen when all of them are there. A
producer that saw some of them would choose partitions by their number.
Rule 3: one change at a time. The caller (`TopicApplier`) sees to that.
Rule 4: what the cluster's state says of this broker's id may be meant for another process. While
this one is not registered it begins to lead nothing, and once another is registered under its id it
neither leads nor follows: two of one id would acknowledge different records in one leader epoch,
and a leader would take the fetches of one for those of the other.
"""

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Final, Protocol

from headrace.broker.metric import BrokerMetrics
from headrace.broker.replica.fetchers import ReplicaFetchers
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.model.clock import Clock
from headrace.model.ids import BrokerId, TopicId, TopicPartition
from headrace.records.framing import load_kernel

# A partition that changes its leader takes about 0.1 ms.
PARTITIONS_PER_SLICE: Final = 32


class ShardCoordinator(Protocol):
    """A coordinator that keeps its state in an internal topic, one shard per partition."""

    def load(self, partitions: Iterable[Partition]) -> None:
        """Serve the shards of partitions that this broker leads from now on."""

    def unload(self, index: int) -> None:
        """Stop serving a shard: another broker leads its partition."""

    def topics_deleted(self, topics: Mapping[str, TopicId]) -> None:
        """Forget what belongs to topics that were deleted: by their names, their ids."""


class ReplicaRoles:
    """Makes this broker lead or follow each partition, as the cluster's state says.

    Threads: event loop only.

    Attributes:
        registered: whether this process is registered under its broker's id (rule 4).
        epoch: the broker epoch that it registered last; -1 before it did.
        holder_epoch: the epoch of the registration that the cluster's state has for the id; None
            when it has none.
        displaced: whether another process has taken the id.

    Args:
        coordinators: by the name of the internal topic that each keeps its state in.
        metrics: counts elections and changes of the in-sync replicas.
        threads: loads a library ahead of the first produce that needs it.
    """

    def __init__(
        self,
        node_id: BrokerId,
        clock: Clock,
        topics: TopicTable,
        storage: LogStorage,
        fetchers: ReplicaFetchers,
        coordinators: Mapping[str, ShardCoordinator],
        threads: Executor,
        metrics: BrokerMetrics,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._topics = topics
        self._storage = storage
        self._fetchers = fetchers
        self._coordinators = coordinators
        self._threads = threads
        self._metrics = metrics
        self._kernel_loaded = False
        self.registered = True
        self.epoch = -1
        self.holder_epoch: int | None = None
        self.displaced = False
        # Topics with partitions that rule 4 left alone.
        self._left_alone: set[str] = set()

    def take_left_alone(self) -> set[str]:
        """Return the topics to apply again, now that this process is registered."""
        names, self._left_alone = self._left_alone, set()
        return names

    async def apply(self, record: TopicRecord) -> list[TopicPartition]:
        """Lead, follow or leave each partition of a topic, as its record says. One whose log is
        missing is not served yet: the caller makes the log, and calls again.

        Returns:
            partitions that have left this broker: their logs are of no use any more.
        """
        topic = self._topics.by_name(record.name)
        known = topic is not None
        if topic is None:
            unseen = replace(record, partitions=())
            topic = HostedTopic(unseen, self._metrics.topic(record.name))
        self._count_elections(topic.record, record)
        unused: list[TopicPartition] = []
        new: list[Partition | None] = []
        try:
            await self._change_known(topic, record, unused)
            await self._open_new(topic, record, new, unused)
        finally:
            # Whatever stopped it half-way: what was packed or looked up before is old.
            topic.record = record
            topic.partitions += new
            topic.partitions.extend([None] * (len(record.partitions) - len(topic.partitions)))
            if known:
                self._topics.changed(topic)
            else:
                self._topics.add(topic)
            self._begin_leading(record.name, [each for each in new if each is not None])
        return unused

    async def _change_known(
        self, topic: HostedTopic, record: TopicRecord, unused: list[TopicPartition]
    ) -> None:
        """Change the partitions that the topic had before, in slices (rule 1)."""
        before, count = topic.record, len(topic.partitions)
        for begin in range(0, count, PARTITIONS_PER_SLICE):
            if begin:
                await asyncio.sleep(0)
            end = min(begin + PARTITIONS_PER_SLICE, count)
            led: list[Partition] = []
            try:
                for index in range(begin, end):
                    partition = record.partitions[index]
                    if partition.leader == self._node_id:
                        opened = self._lead(topic, index, partition)
                        if opened is not None:
                            led.append(opened)
                    else:
                        self._stop_leading(topic, index)
                        self._follow_or_leave(topic, record, index, unused)
            finally:
                mixed = record.partitions[:end] + before.partitions[end:]
                topic.record = replace(before, partitions=mixed)
                self._topics.changed(topic)
                self._begin_leading(record.name, led)

    async def _open_new(
        self,
        topic: HostedTopic,
        record: TopicRecord,
        new: list[Partition | None],
        unused: list[TopicPartition],
    ) -> None:
        """Open the partitions that the topic did not have before, in slices (rule 2)."""
        for index in range(len(topic.partitions), len(record.partitions)):
            if index and index % PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)
            partition = record.partitions[index]
            opened = None
            if partition.leader == self._node_id:
                opened = self._open(topic, index, partition)
            else:
                self._follow_or_leave(topic, record, index, unused)
            new.append(opened)

    async def remove(self, names: Iterable[str]) -> list[TopicRecord]:
        """Stop serving topics that were deleted; return the records of those that were served."""
        removed: dict[str, HostedTopic] = {}
        for name in names:
            topic = self._topics.by_name(name)
            if topic is not None:
                self._topics.remove(topic)
                self._metrics.forget_topic(name)
                removed[name] = topic
        await self._stop_all(removed.values())
        if removed:
            deleted = {name: topic.topic_id for name, topic in removed.items()}
            for coordinator in self._coordinators.values():
                coordinator.topics_deleted(deleted)
        return [topic.record for topic in removed.values()]

    async def resign_all(self) -> None:
        """Neither lead nor follow anything, until the topics are applied again (rule 4)."""
        topics = list(self._topics)
        self._left_alone.update(topic.name for topic in topics)
        await self._stop_all(topics)
        for topic in topics:
            self._topics.changed(topic)

    async def _stop_all(self, topics: Iterable[HostedTopic]) -> None:
        """Neither lead nor follow the partitions of topics that no request finds any more."""
        stopped = 0
        for topic in topics:
            for index in range(len(topic.partitions)):
                if stopped and stopped % PARTITIONS_PER_SLICE == 0:
                    await asyncio.sleep(0)
                stopped += 1
                self._stop_leading(topic, index)
                self._stop_following(topic, index)

    def offline_partitions(self) -> list[TopicPartition]:
        """Return the partitions on a log directory that has failed or is missing, if this broker
        leads them or is in sync for them."""
        failed = self._storage.offline
        if not failed and not self._storage.missing:
            return []
        return [
            name
            for topic in self._topics
            for index, record in enumerate(topic.record.partitions)
            if self._node_id in record.isr
            and (record.leader == self._node_id or len(record.isr) > 1)
            for name in [TopicPartition(topic.name, index)]
            if any(name in directory for directory in failed)
            or (name, topic.topic_id) in self._storage.missing
        ]

    def full_partitions(self) -> list[TopicPartition]:
        """Return the partitions this broker leads whose last append found the disk full."""
        return [each.name for each in self._topics.partitions() if each.no_room]

    @property
    def _may_lead(self) -> bool:
        holds = self.holder_epoch is None or self.holder_epoch == self.epoch
        return self.registered and holds and not self.displaced

    # -- leading

    def _lead(self, topic: HostedTopic, index: int, record: PartitionRecord) -> Partition | None:
        """Return the partition if this broker begins to lead it in this epoch."""
        known = topic.partitions[index]
        if known is not None and known.leader_epoch == record.leader_epoch:
            before = known.state.isr
            known.apply_record(record, self._clock.monotonic_ms())
            self._metrics.isr_shrinks += bool(before - known.state.isr)
            self._metrics.isr_expands += bool(known.state.isr - before)
            return None
        self._stop_leading(topic, index)
        self._stop_following(topic, index)
        partition = self._open(topic, index, record)
        topic.partitions[index] = partition
        return partition

    def _open(self, topic: HostedTopic, index: int, record: PartitionRecord) -> Partition | None:
        """Return None when the log directory is offline, or where rule 4 says so: clients are sent
        an error for this partition, and the others are served."""
        if not self._may_lead:
            self._left_alone.add(topic.name)
            return None
        name = TopicPartition(topic.name, index)
        if self._storage.missing.forbid(name, topic.topic_id, record):
            return None
        self._fetchers.settle(name)
        stored = self._storage.log_of(name, topic.topic_id)
        if stored is None:
            return None
        if len(record.replicas) > 1:
            # Before it writes anything: followers ask this leader where the epoch before ended.
            stored.epochs.assign(record.leader_epoch, stored.log_end_offset)
        return Partition(
            name,
            stored,
            record.leader_epoch,
            self._node_id,
            record=record,
            now_ms=self._clock.monotonic_ms(),
            traffic=self._metrics.topic(name.topic),
        )

    def _count_elections(self, before: TopicRecord, after: TopicRecord) -> None:
        """Count the partitions that this broker was elected to lead; a new topic's are not."""
        for old, new in zip(before.partitions, after.partitions, strict=False):
            if new.leader == self._node_id and new.leader_epoch > old.leader_epoch:
                self._metrics.leader_elections += 1
                self._metrics.unclean_leader_elections += self._node_id not in old.isr

    def _begin_leading(self, name: str, led: list[Partition]) -> None:
        coordinator = self._coordinators.get(name)
        if coordinator is not None:
            coordinator.load(led)
        elif not self._kernel_loaded and any(each.log.config.compacted for each in led):
            self._kernel_loaded = True
            # Keys are looked at in every record there.
            self._threads.submit(load_kernel)

    def _stop_leading(self, topic: HostedTopic, index: int) -> None:
        partition = topic.partitions[index]
        if partition is None:
            return
        topic.partitions[index] = None
        partition.resign()
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None:
            coordinator.unload(index)

    # -- following

    def _follow_or_leave(
        self, topic: HostedTopic, record: TopicRecord, index: int, unused: list[TopicPartition]
    ) -> None:
        """Copy a partition that this broker does not lead; or add it to `unused` if it has a log
        here, and is no replica any more."""
        if self._node_id in record.partitions[index].replicas:
            self._follow_leader(topic, index, record.partitions[index])
            return
        self._stop_following(topic, index)
        name = TopicPartition(record.name, index)
        if self._storage.holds(name, record.topic_id):
            unused.append(name)

    def _follow_leader(self, topic: HostedTopic, index: int, record: PartitionRecord) -> None:
        if self.displaced:
            self._left_alone.add(topic.name)
            return
        if self._node_id not in record.isr:
            self._storage.missing.discard(TopicPartition(topic.name, index), topic.topic_id)
        known = topic.followers.get(index)
        if (
            known is not None
            and known.leader_epoch == record.leader_epoch
            and not known.log.closed  # it was deleted: there is a new one, or there will be
        ):
            return
        name = TopicPartition(topic.name, index)
        stored = self._storage.log_of(name, topic.record.topic_id)
        if stored is None:
            self._stop_following(topic, index)
            return
        follower = Follower(
            name,
            topic.record.topic_id,
            stored,
            record.leader,
            record.leader_epoch,
            self._fetchers.log_starts,
        )
        topic.followers[index] = follower
        self._fetchers.follow(follower)

    def _stop_following(self, topic: HostedTopic, index: int) -> None:
        follower = topic.followers.pop(index, None)
        if follower is not None:
            follower.wake_all()
            self._fetchers.leave(TopicPartition(topic.name, index))
