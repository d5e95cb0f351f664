"""The broker's topics, as group coordinators look at them."""

from collections.abc import Collection
from uuid import UUID

from headrace.broker.coordinator.coordinator_host import CoordinatorHost
from headrace.groups.topic import GroupTopic


class BrokerTopics:
    """The broker's topics as a `TopicSource` of the registries."""

    def __init__(self, broker: CoordinatorHost) -> None:
        self._broker = broker
        self._names: tuple[str, ...] = ()
        self._names_version: int | None = None

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

    def names(self) -> Collection[str]:
        if self._names_version != self.version:
            # The version also moves with every leader.
            self._names_version = self.version
            names = tuple(sorted(topic.name for topic in self._broker.topics))
            if names != self._names:
                self._names = names
        return self._names
