"""What a coordinator must know about topics: their ids, names and partition counts."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from headrace.model.ids import TopicPartition


class TopicIdPartition(NamedTuple):
    """One partition, named by the topic's id: a topic deleted and created again is another one."""

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """One topic as it is now."""

    name: str
    topic_id: UUID
    partition_count: int


class TopicSource(Protocol):
    """The broker's topics. `version` is another number after every change, and only then."""

    @property
    def version(self) -> int: ...

    def by_name(self, name: str) -> GroupTopic | None: ...

    def by_id(self, topic_id: UUID) -> GroupTopic | None: ...

    def names(self) -> Collection[str]:
        """Return the name of every topic, internal ones too: a regular expression may match any.

        It is the same object until a topic appears or goes, so that nothing is matched in vain.
        """


class TopicRights(Protocol):
    """What one client may do with topics. Two of the same principal and host are equal."""

    @property
    def version(self) -> int:
        """A number that is another one after every change of any right."""

    def may_describe(self, name: str) -> bool: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class TopicImage:
    """A `TopicSource` that does not change."""

    version: int = 0
    topics: tuple[GroupTopic, ...] = ()
    _by_name: dict[str, GroupTopic] = field(init=False, repr=False, compare=False)
    _by_id: dict[UUID, GroupTopic] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {topic.name: topic for topic in self.topics})
        object.__setattr__(self, "_by_id", {topic.topic_id: topic for topic in self.topics})

    def by_name(self, name: str) -> GroupTopic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> GroupTopic | None:
        return self._by_id.get(topic_id)

    def names(self) -> Collection[str]:
        return self._by_name


def with_ids(
    partitions: frozenset[TopicPartition], topics: TopicSource
) -> frozenset[TopicIdPartition]:
    """Return partitions by their topics' ids, without topics that do not exist."""
    return frozenset(
        TopicIdPartition(topic.topic_id, each.partition)
        for each in partitions
        if (topic := topics.by_name(each.topic)) is not None
        and 0 <= each.partition < topic.partition_count
    )


def with_names(
    partitions: frozenset[TopicIdPartition], topics: TopicSource
) -> frozenset[TopicPartition]:
    """Return partitions by their topics' names, without topics that do not exist any more."""
    return frozenset(
        TopicPartition(topic.name, each.partition)
        for each in partitions
        if (topic := topics.by_id(each.topic_id)) is not None
    )
