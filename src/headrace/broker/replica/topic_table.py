"""The topics this broker serves, by name and by id, and their partitions."""

from collections.abc import Iterator
from uuid import UUID

from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition
from headrace.cluster.topic import TopicRecord


class HostedTopic:
    """One topic.

    Attributes:
        partitions: by index, those that are led here; None where another broker leads.
        followers: by index, those that are copied here.
        record: what the cluster's state says of it: all replicas, leaders and in-sync replicas.
    """

    __slots__ = ("followers", "name", "partitions", "record", "topic_id")

    def __init__(self, record: TopicRecord) -> None:
        self.name = record.name
        self.topic_id = record.topic_id
        self.record = record
        self.partitions: list[Partition | None] = []
        self.followers: dict[int, Follower] = {}

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL


class TopicTable:
    """Looked into by every request: two dictionaries and a list. Lives on the event loop.

    `version` is another number after every change, so that others can tell that they must look.
    """

    def __init__(self) -> None:
        self.version = 0
        self._by_name: dict[str, HostedTopic] = {}
        self._by_id: dict[UUID, HostedTopic] = {}

    def __iter__(self) -> Iterator[HostedTopic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def by_name(self, name: str) -> HostedTopic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> HostedTopic | None:
        return self._by_id.get(topic_id)

    def add(self, topic: HostedTopic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.version += 1

    def remove(self, topic: HostedTopic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self.version += 1

    def changed(self) -> None:
        self.version += 1

    def find(self, name: str | None, topic_id: UUID | None, index: int) -> Partition | None:
        """A partition by its topic's name or, from newer clients, its id; None if not here."""
        topic = self._by_id.get(topic_id) if topic_id is not None else self._by_name.get(name or "")
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def follower(self, name: str | None, topic_id: UUID | None, index: int) -> Follower | None:
        """A partition that is copied here, as `find`."""
        topic = self._by_id.get(topic_id) if topic_id is not None else self._by_name.get(name or "")
        return None if topic is None else topic.followers.get(index)

    def partitions(self) -> Iterator[Partition]:
        for topic in self._by_name.values():
            for partition in topic.partitions:
                if partition is not None:
                    yield partition
