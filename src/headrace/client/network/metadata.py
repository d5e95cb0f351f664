"""A cluster's metadata: its brokers, its topics, and the leader of each partition."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from headrace.client.address import Address
from headrace.client.error import BrokerError, error_of
from headrace.model.ids import TopicPartition

NO_NODE = -1


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """One broker: its id, its advertised address and its rack."""

    node_id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """One partition. Without a leader `leader` is -1, and `error` says why."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    error: BrokerError | None

    @property
    def under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic, or the error that the cluster returned for it."""

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: dict[int, PartitionMetadata]
    error: BrokerError | None

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions.values()), default=0)

    def partition(self, index: int) -> TopicPartition:
        return TopicPartition(self.name, index)


@dataclass(frozen=True, slots=True)
class Metadata:
    """A snapshot of a cluster. It may be out of date as soon as it is read."""

    cluster_id: str | None
    controller: int
    brokers: dict[int, BrokerMetadata]
    topics: dict[str, TopicMetadata]

    @classmethod
    def of(cls, answer: Any) -> "Metadata":
        """Read a Metadata response in the layout of its newest version."""
        brokers = {
            each.node_id: BrokerMetadata(each.node_id, Address(each.host, each.port), each.rack)
            for each in answer.brokers
        }
        topics = {each.name: _topic(each) for each in answer.topics if each.name is not None}
        return cls(answer.cluster_id, answer.controller_id, brokers, topics)

    def leader(self, partition: TopicPartition) -> int:
        """Return the id of the partition's leader, or -1."""
        topic = self.topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return NO_NODE if found is None else found.leader

    def topic_id(self, name: str) -> UUID | None:
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id


def _topic(answer: Any) -> TopicMetadata:
    partitions = {
        each.partition_index: PartitionMetadata(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            error_of(each.error_code),
        )
        for each in sorted(answer.partitions, key=lambda each: each.partition_index)
    }
    topic_id = answer.topic_id if answer.topic_id is not None and answer.topic_id.int else None
    return TopicMetadata(
        answer.name, topic_id, answer.is_internal, partitions, error_of(answer.error_code)
    )
