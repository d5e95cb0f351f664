"""Which topics of the source a flow copies, and what is missing at the target. Pure.

Rule 1: a topic that the filter takes is copied, and so are heartbeats, which show that a flow is
        alive and over which clusters it goes.
Rule 2: the mirrors' own topics are not copied, nor is a topic that came from the target.
Rule 3: with a policy that keeps names, a topic that other flows bring back to the source is copied
        by none of them: nothing in its name says where a record came from, and it would go round.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from headrace.client.network.metadata import Metadata, TopicMetadata
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.replication_policy import HEARTBEATS
from headrace.model.ids import TopicPartition
from headrace.model.table.table_config import TABLE_KEYS

_OWN_CONFIGS: Final = "headrace."
# What makes a topic a mirror is not copied from one, and a table is filled by one topic only.
_NOT_COPIED: Final = ("headrace.mirror.", TABLE_KEYS)


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """A topic at the source and what it is called at the target."""

    name: str
    remote_name: str
    partitions: int
    topic_id: UUID | None

    def pairs(self) -> Iterator[tuple[TopicPartition, TopicPartition]]:
        """Iterate over the partitions, at the source and at the target."""
        for index in range(self.partitions):
            yield TopicPartition(self.name, index), TopicPartition(self.remote_name, index)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """All topics that a flow copies. Two plans are equal if the same partitions are copied.

    Attributes:
        loops: topics that are not copied because of rule 3.
    """

    topics: tuple[CopiedTopic, ...]
    loops: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, flow: FlowSettings, source: Metadata, flows: Sequence[FlowSettings] = ()
    ) -> "TopicPlan":
        """Choose the topics.

        Args:
            flows: all flows of the file, to find loops.
        """
        chosen, loops = [], []
        for name, topic in sorted(source.topics.items()):
            if not topic.partitions or topic.error is not None:
                continue
            if not is_copied(flow, name):
                continue
            if _is_loop(flow, name, flows):
                loops.append(name)
                continue
            remote = flow.policy.remote_topic(flow.source, name)
            chosen.append(CopiedTopic(name, remote, _count(topic), topic.topic_id))
        return cls(tuple(chosen), tuple(loops))

    def pairs(self) -> Iterator[tuple[TopicPartition, TopicPartition]]:
        """Iterate over all partitions, at the source and at the target."""
        for topic in self.topics:
            yield from topic.pairs()

    def missing(self, target: Metadata) -> list[CopiedTopic]:
        """Return the topics that do not exist at the target."""
        return [each for each in self.topics if not _exists(target, each.remote_name)]

    def grown(self, target: Metadata) -> dict[str, int]:
        """Return the topics with fewer partitions at the target, and how many they need."""
        return {
            each.remote_name: each.partitions
            for each in self.topics
            if _exists(target, each.remote_name)
            and _count(target.topics[each.remote_name]) < each.partitions
        }

    def only(self, remote_names: Collection[str]) -> "TopicPlan":
        """Return the plan for the topics that can be written to at the target."""
        chosen = tuple(each for each in self.topics if each.remote_name in remote_names)
        return TopicPlan(chosen, self.loops)


def is_copied(flow: FlowSettings, name: str) -> bool:
    """Return whether a flow takes a topic by its name."""
    policy = flow.policy
    heartbeats = policy.original_topic(name) == HEARTBEATS
    if policy.is_internal(name) or policy.is_cycle(name, flow.target):
        return False
    return heartbeats or flow.topics.matches(name)


def synced_configs(
    flow: FlowSettings, configs: Mapping[str, str], known: Collection[str] | None = None
) -> dict[str, str]:
    """Return the configurations of a source's topic that its copy gets.

    Args:
        known: the keys that topics of the target have. Without it, keys that only Headrace has are
            left out.
    """
    return {
        name: value
        for name, value in configs.items()
        if not flow.excluded_configs.matches(name)
        and not name.startswith(_NOT_COPIED)
        and (not name.startswith(_OWN_CONFIGS) if known is None else name in known)
    }


def _is_loop(flow: FlowSettings, name: str, flows: Sequence[FlowSettings]) -> bool:
    """Return whether flows that keep names would bring a topic back to where it comes from."""
    if not flow.policy.keeps_names or flow.policy.original_topic(name) == HEARTBEATS:
        return False
    reached, left = {flow.target}, [flow.target]
    while left:
        at = left.pop()
        for each in flows:
            if each.source != at or not each.policy.keeps_names or not each.topics.matches(name):
                continue
            if each.target == flow.source:
                return True
            if each.target not in reached:
                reached.add(each.target)
                left.append(each.target)
    return False


def _exists(target: Metadata, name: str) -> bool:
    topic = target.topics.get(name)
    return topic is not None and bool(topic.partitions)


def _count(topic: TopicMetadata) -> int:
    return max(topic.partitions, default=-1) + 1
