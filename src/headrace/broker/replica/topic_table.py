"""The topics of the cluster as this broker hosts them, by name and by id, and their partitions."""

from collections.abc import Iterator, Mapping
from uuid import UUID

from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.metric import TopicTraffic
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.topic import NO_LEADER, TopicRecord
from headrace.model.ids import BrokerId, TopicPartition
from headrace.wire.error_code import ErrorCode
from headrace.wire.leader import LeaderHint


class HostedTopic:
    """One topic.

    Attributes:
        partitions: by index, those that this broker leads; None where another broker leads.
        followers: by index, those that this broker copies.
        record: the topic in the cluster's state: all replicas, leaders and in-sync replicas.
        packed: what Metadata says of it, as bytes, by version of the API; emptied when it changes.
        traffic: what clients write and read here.
    """

    __slots__ = ("followers", "name", "packed", "partitions", "record", "topic_id", "traffic")

    def __init__(self, record: TopicRecord, traffic: TopicTraffic | None = None) -> None:
        self.name = record.name
        self.topic_id = record.topic_id
        self.record = record
        self.partitions: list[Partition | None] = []
        self.followers: dict[int, Follower] = {}
        self.packed: dict[int, bytes] = {}
        self.traffic = TopicTraffic() if traffic is None else traffic

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL

    @property
    def is_mirror(self) -> bool:
        """Whether it is a copy of another cluster's topic, which clients cannot write to."""
        return bool(self.record.configs.get("headrace.mirror.link"))


class TopicTable:
    """Every request looks into it: two dictionaries and a list. Lives on the event loop.

    Args:
        members: the brokers that are running, by id; the table reads it and never changes it.

    Attributes:
        version: another number after every change, so that a cached look-up knows that it is old.
    """

    def __init__(self, settings: BrokerSettings, members: Mapping[BrokerId, BrokerRecord]) -> None:
        self.version = 0
        self._settings = settings
        self._node_id = settings.node_id
        self._members = members
        self._by_name: dict[str, HostedTopic] = {}
        self._by_id: dict[UUID, HostedTopic] = {}

    def __iter__(self) -> Iterator[HostedTopic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    # -- changing

    def add(self, topic: HostedTopic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.version += 1

    def remove(self, topic: HostedTopic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self.version += 1

    def changed(self, topic: HostedTopic) -> None:
        """Count a change of a topic that is in the table."""
        topic.packed.clear()
        self.version += 1

    def members_changed(self) -> None:
        """Count a change of the brokers that are running: replicas are offline without theirs."""
        for topic in self._by_name.values():
            topic.packed.clear()
        self.version += 1

    # -- looking up what is here

    def by_name(self, name: str) -> HostedTopic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> HostedTopic | None:
        return self._by_id.get(topic_id)

    def named(self, name: str | None, topic_id: UUID | None) -> HostedTopic | None:
        """Return a topic by its name or, from newer clients, its id."""
        return self._by_id.get(topic_id) if topic_id is not None else self._by_name.get(name or "")

    def find(self, name: str | None, topic_id: UUID | None, index: int) -> Partition | None:
        """Return a partition that this broker leads, by its topic's name or, from newer clients,
        its id; None if it leads no such partition."""
        topic = self._by_id.get(topic_id) if topic_id is not None else self._by_name.get(name or "")
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def follower(self, name: str | None, topic_id: UUID | None, index: int) -> Follower | None:
        """Return a partition that this broker copies, named as for `find`."""
        topic = self._by_id.get(topic_id) if topic_id is not None else self._by_name.get(name or "")
        return None if topic is None else topic.followers.get(index)

    def partitions(self) -> Iterator[Partition]:
        """Iterate over every partition that this broker leads."""
        for topic in self._by_name.values():
            for partition in topic.partitions:
                if partition is not None:
                    yield partition

    # -- looking up what is elsewhere

    def exists(self, name: str, index: int) -> bool:
        """Return whether the cluster has such a partition, whichever broker leads it."""
        topic = self._by_name.get(name)
        return topic is not None and 0 <= index < len(topic.partitions)

    def leader_elsewhere(self, name: TopicPartition) -> BrokerId | None:
        """Return the other broker that leads a partition; None if this one does, or none."""
        topic = self._by_name.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return None
        leader = topic.record.partitions[name.partition].leader
        return None if leader in (self._node_id, NO_LEADER) else leader

    def leader_hint(self, name: str | None, topic_id: UUID | None, index: int) -> LeaderHint | None:
        """Return the leader of a partition that this broker does not lead (KIP-951)."""
        topic = self._by_id.get(topic_id) if topic_id is not None else self._by_name.get(name or "")
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        record = topic.record.partitions[index]
        if record.leader in (self._node_id, NO_LEADER):
            return None
        return LeaderHint(record.leader, record.leader_epoch)

    def missing_code(self, name: str | None, topic_id: UUID | None, index: int) -> ErrorCode:
        """Return why `find` returned None: there is no such partition, or another broker leads it,
        or its log directory is offline."""
        topic = self._by_id.get(topic_id) if topic_id is not None else self._by_name.get(name or "")
        if topic is None:
            unknown = ErrorCode.unknown_topic_or_partition
            return unknown if topic_id is None else ErrorCode.unknown_topic_id
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.unknown_topic_or_partition
        if topic.record.partitions[index].leader == self._node_id:
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> BrokerId | None:
        """Return a follower that is in sync, on the reader's rack, and has the offset that the
        reader fetches next (KIP-392)."""
        if rack == self._settings.rack or not self._settings["replica.selector.class"]:
            return None
        state, members = partition.state, self._members
        return next(
            (
                each
                for each in sorted(state.isr)
                if each in members
                and members[each].rack == rack
                and state.follower_end(each) >= offset
            ),
            None,
        )
