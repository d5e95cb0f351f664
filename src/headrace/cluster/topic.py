"""A topic and its partitions, as the controller knows them."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID, uuid4

from headrace.model.ids import BrokerId, LeaderEpoch, TopicId

NO_LEADER = BrokerId(-1)
FIRST_LEADER_EPOCH = LeaderEpoch(0)

# Kafka keeps these two for itself: "no topic id" and the id of its own metadata topic.
_RESERVED_IDS = (UUID(int=0), UUID(int=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Where a partition lies and who leads it.

    Invariants: the leader, if there is one, is in sync; every in-sync replica is a replica; a new
    leader always has a higher `leader_epoch`; every change adds 1 to `partition_epoch`.
    """

    replicas: tuple[BrokerId, ...]
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch = FIRST_LEADER_EPOCH
    partition_epoch: int = 0

    @classmethod
    def on(cls, replicas: Sequence[BrokerId]) -> "Partition":
        """A new partition: all in sync, as all are empty, and the first, the preferred, leads."""
        return cls(replicas=tuple(replicas), leader=replicas[0], isr=tuple(replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """`configs` are only the keys that were set for this topic, as the texts that were written."""

    KIND: ClassVar[str] = "topics"

    name: str
    topic_id: TopicId
    partitions: tuple[Partition, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        return self.name in ("__consumer_offsets", "__transaction_state")

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)

    def key(self) -> tuple[str, ...]:
        return (self.name,)

    def to_json(self) -> dict[str, Any]:
        """A partition is a list, not an object: a topic of 10,000 must fit into one node."""
        return {
            "topic_id": str(self.topic_id),
            "configs": dict(self.configs),
            "partitions": [
                [each.replicas, each.leader, each.isr, each.leader_epoch, each.partition_epoch]
                for each in self.partitions
            ],
        }

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "Topic":
        return cls(
            name=key[0],
            topic_id=TopicId(UUID(fields["topic_id"])),
            configs=fields["configs"],
            partitions=tuple(
                Partition(
                    replicas=tuple(BrokerId(broker) for broker in replicas),
                    leader=BrokerId(leader),
                    isr=tuple(BrokerId(broker) for broker in isr),
                    leader_epoch=LeaderEpoch(leader_epoch),
                    partition_epoch=partition_epoch,
                )
                for replicas, leader, isr, leader_epoch, partition_epoch in fields["partitions"]
            ),
        )


def random_topic_id() -> TopicId:
    """An id that command lines can take: its text form does not start with a dash."""
    while True:
        candidate = uuid4()
        if candidate not in _RESERVED_IDS and not urlsafe_b64encode(candidate.bytes).startswith(
            b"-"
        ):
            return TopicId(candidate)
