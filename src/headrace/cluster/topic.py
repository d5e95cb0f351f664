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
class PartitionRecord:
    """Where a partition lies and who leads it.

    Invariants: the leader, if there is one, is in sync; every in-sync replica is a replica; a new
    leader always has a higher `leader_epoch`; every change adds 1 to `partition_epoch`.

    While it is being moved (KIP-455) `replicas` are the old ones and the new ones together: those
    in `adding` catch up, and those in `removing` go once all of `adding` are in sync.
    """

    replicas: tuple[BrokerId, ...]
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch = FIRST_LEADER_EPOCH
    partition_epoch: int = 0
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas that it has when its move has ended."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @classmethod
    def on(cls, replicas: Sequence[BrokerId]) -> "PartitionRecord":
        """Return a new partition: all replicas are in sync, as all are empty; the first leads."""
        return cls(replicas=tuple(replicas), leader=replicas[0], isr=tuple(replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic as the cluster's state keeps it.

    `configs` are only the keys that were set for this topic, as the texts that were written.
    """

    KIND: ClassVar[str] = "topics"

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionRecord, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        return self.name in ("__consumer_offsets", "__transaction_state")

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].target)

    def key(self) -> tuple[str, ...]:
        return (self.name,)

    def to_json(self) -> dict[str, Any]:
        """Return the node's JSON. Partitions are lists, so that 10,000 fit into one node."""
        return {
            "topic_id": str(self.topic_id),
            "configs": dict(self.configs),
            "partitions": [_to_list(each) for each in self.partitions],
        }

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "TopicRecord":
        (name,) = key
        return cls(
            name=name,
            topic_id=TopicId(UUID(fields["topic_id"])),
            configs=fields["configs"],
            partitions=tuple(_from_list(each) for each in fields["partitions"]),
        )


def _to_list(partition: PartitionRecord) -> list[Any]:
    fields = [
        partition.replicas,
        partition.leader,
        partition.isr,
        partition.leader_epoch,
        partition.partition_epoch,
    ]
    return [*fields, partition.adding, partition.removing] if partition.moving else fields


def _from_list(fields: Sequence[Any]) -> PartitionRecord:
    replicas, leader, isr, leader_epoch, partition_epoch, *move = fields
    adding, removing = move or ((), ())
    return PartitionRecord(
        replicas=_brokers(replicas),
        leader=BrokerId(leader),
        isr=_brokers(isr),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=partition_epoch,
        adding=_brokers(adding),
        removing=_brokers(removing),
    )


def _brokers(numbers: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def random_topic_id() -> TopicId:
    """Return an id that command lines accept: its text form does not start with a dash."""
    while True:
        candidate = uuid4()
        if candidate not in _RESERVED_IDS and not urlsafe_b64encode(candidate.bytes).startswith(
            b"-"
        ):
            return TopicId(candidate)
