"""How large the node of an entity may become, so that the store can always hold it.

Rule 1: a client's request is refused where the node of what it asks for would be too large.
Rule 2: a topic's node also changes when no client asks: leaders come and go, replicas fall out of
        sync, epochs grow. So clients may fill it only as far as all of that fits (`topic_bytes`).
        Otherwise one full topic would stop every election behind it.
Rule 3: a topic that is too large already may become smaller. It may also grow a little, up to
        `_FULL_BYTES` as it is: its replicas must be able to move away from a broker. If it is ever
        full its own elections stop, and no others (`CommandRunner`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.cluster.entity import Entity, encode_entity, entity_path
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.store import node_problem
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.model.ids import BrokerId

# Less than `MAX_NODE_BYTES`: clients of an earlier release could fill a node up to here, and the
# cluster must be able to change it.
MAX_TOPIC_BYTES = 1_000_000
_FULL_BYTES = 900_000
_EPOCH_BYTES = len(str(2**31 - 1))


def entity_problem(
    entity: Entity, error: ClusterError = ClusterError.INVALID_REQUEST
) -> Rejection | None:
    """Return why the store cannot hold an entity, or None when it can."""
    problem = node_problem(entity_path(entity), encode_entity(entity))
    return None if problem is None else Rejection(error, problem)


def configs_problem(configs: Mapping[str, str]) -> Rejection | None:
    """Return why no topic can be configured so, before the values are parsed: a long list takes
    the controller seconds, and a request may hold 100 MB."""
    size = sum(len(key) + len(text) for key, text in configs.items())
    if size <= MAX_TOPIC_BYTES:
        return None
    return Rejection(
        ClusterError.POLICY_VIOLATION,
        f"a configuration of {size} bytes is too long: the cluster's store keeps at most "
        f"{MAX_TOPIC_BYTES}",
        final=True,
    )


def topic_problem(topic: TopicRecord, before: TopicRecord | None = None) -> Rejection | None:
    """Return why a topic cannot become so, or None when it can.

    Args:
        before: the topic as it is; None for a new one.
    """
    size = topic_bytes(topic)
    if size <= MAX_TOPIC_BYTES:
        return None
    if before is not None:
        bound = topic_bytes(before)
        is_full = len(encode_entity(topic)) > _FULL_BYTES
        if size <= bound or (bound > MAX_TOPIC_BYTES and not is_full):
            return None
    return Rejection(
        ClusterError.POLICY_VIOLATION,
        f"the record of topic {topic.name!r} may grow to {size} bytes, and clients may fill it "
        f"up to {MAX_TOPIC_BYTES}: set shorter values, or ask for fewer partitions or replicas",
        topic=topic.name,
    )


def topic_bytes(topic: TopicRecord) -> int:
    """Return how large a topic's node can become while no client changes the topic."""
    alone = len(encode_entity(replace(topic, partitions=())))
    return alone + sum(map(partition_bytes, topic.partitions))


def partition_bytes(partition: PartitionRecord) -> int:
    """Return how much of it is a partition's, when all its replicas are in sync, the one with the
    longest id leads, and the epochs are as long as Kafka's protocol can carry."""
    replicas = _list_bytes(partition.replicas)
    leader = max(len(str(each)) for each in (*partition.replicas, NO_LEADER))
    fields = [replicas, leader, replicas, _EPOCH_BYTES, _EPOCH_BYTES]
    if partition.moving:
        fields += [_list_bytes(partition.adding), _list_bytes(partition.removing)]
    # A comma behind each, the last one behind the partition, and two brackets.
    return sum(fields) + len(fields) + 2


def _list_bytes(brokers: Sequence[BrokerId]) -> int:
    return 2 + sum(len(str(each)) for each in brokers) + max(0, len(brokers) - 1)


class TopicRoom:
    """What is left of the nodes of topics, while one command changes their partitions in turn."""

    def __init__(self) -> None:
        self._bytes: dict[str, int] = {}
        # Of topics that are too large already (rule 3): how much of `_FULL_BYTES` is left.
        self._left: dict[str, int] = {}

    def take(
        self, topic: TopicRecord, before: PartitionRecord, after: PartitionRecord
    ) -> Rejection | None:
        """Return why a partition of the topic cannot become so, or None and count it."""
        more = partition_bytes(after) - partition_bytes(before)
        if topic.name not in self._bytes:
            size = self._bytes[topic.name] = topic_bytes(topic)
            if size > MAX_TOPIC_BYTES:
                self._left[topic.name] = _FULL_BYTES - len(encode_entity(topic))
        size = more + self._bytes[topic.name]
        left = self._left.get(topic.name, 0) - more
        if more > 0 and size > MAX_TOPIC_BYTES and left < 0:
            return Rejection(
                ClusterError.POLICY_VIOLATION,
                f"the record of topic {topic.name!r} may grow to {size} bytes, and clients may "
                f"fill it up to {MAX_TOPIC_BYTES}: move fewer of its partitions at a time",
            )
        self._bytes[topic.name] = size
        if topic.name in self._left:
            self._left[topic.name] = left
        return None
