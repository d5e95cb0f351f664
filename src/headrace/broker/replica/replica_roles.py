"""What this broker does with each partition: lead it, follow its leader, or neither.

The cluster's state decides (`TopicRecord`); `ReplicaRoles` makes it so. It opens and resigns
partitions, starts and stops copying, and hands the partitions of an internal topic to their
coordinator. It never waits: the caller creates missing logs, and deletes unused ones after.
Only a log that is being truncated is waited for before it is led (`log_truncations`, rule 2).
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Protocol

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

    def apply(self, record: TopicRecord) -> list[TopicPartition]:
        """Lead, follow or leave each partition of a topic, as its record says. One whose log is
        missing is not served yet: the caller makes the log, and calls again.

        Returns:
            partitions that have left this broker: their logs are of no use any more.
        """
        topic = self._topics.by_name(record.name)
        if topic is None:
            topic = HostedTopic(record, self._metrics.topic(record.name))
            self._topics.add(topic)
        self._count_elections(topic.record, record)
        topic.record = record
        topic.partitions.extend([None] * (len(record.partitions) - len(topic.partitions)))
        led: list[Partition] = []
        unused: list[TopicPartition] = []
        try:
            for index, partition in enumerate(record.partitions):
                if partition.leader == self._node_id:
                    new = self._lead(topic, index, partition)
                    if new is not None:
                        led.append(new)
                    continue
                self._stop_leading(topic, index)
                if self._node_id in partition.replicas:
                    self._follow_leader(topic, index, partition)
                    continue
                self._stop_following(topic, index)
                name = TopicPartition(record.name, index)
                if self._storage.holds(name, record.topic_id):
                    unused.append(name)
        finally:
            # Whatever stopped it half-way: what was packed or looked up before is old.
            self._topics.changed(topic)
            self._begin_leading(record.name, led)
        return unused

    def remove(self, names: Iterable[str]) -> list[TopicRecord]:
        """Stop serving topics that were deleted; return the records of those that were served."""
        removed: dict[str, TopicRecord] = {}
        for name in names:
            topic = self._topics.by_name(name)
            if topic is None:
                continue
            self._topics.remove(topic)
            self._metrics.forget_topic(name)
            removed[name] = topic.record
            self._metrics.forget_topic(name)
            for index in range(len(topic.partitions)):
                self._stop_leading(topic, index)
                self._stop_following(topic, index)
        if removed:
            deleted = {name: record.topic_id for name, record in removed.items()}
            for coordinator in self._coordinators.values():
                coordinator.topics_deleted(deleted)
        return list(removed.values())

    def offline_partitions(self) -> list[TopicPartition]:
        """Return the partitions on a log directory that has failed, if this broker leads them or
        is in sync for them."""
        failed = self._storage.offline
        if not failed:
            return []
        return [
            name
            for topic in self._topics
            for index, record in enumerate(topic.record.partitions)
            if self._node_id in record.isr
            and (record.leader == self._node_id or len(record.isr) > 1)
            for name in [TopicPartition(topic.name, index)]
            if any(name in directory for directory in failed)
        ]

    def full_partitions(self) -> list[TopicPartition]:
        """Return the partitions this broker leads whose last append found the disk full."""
        return [each.name for each in self._topics.partitions() if each.no_room]

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
        self._fetchers.settle(TopicPartition(topic.name, index))
        partition = self._open(topic, index, record)
        topic.partitions[index] = partition
        return partition

    def _open(self, topic: HostedTopic, index: int, record: PartitionRecord) -> Partition | None:
        """Return None when the log directory is offline: clients are sent an error for this
        partition, and the others are served."""
        name = TopicPartition(topic.name, index)
        stored = self._storage.log_of(name, topic.record.topic_id)
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

    def _follow_leader(self, topic: HostedTopic, index: int, record: PartitionRecord) -> None:
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
