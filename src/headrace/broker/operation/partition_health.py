"""How many partitions are in danger, counted when /metrics is scraped."""

import asyncio
from dataclasses import dataclass

from headrace.broker.broker import Broker
from headrace.broker.replica.topic_table import HostedTopic
from headrace.cluster.topic import NO_LEADER

# Partitions between two turns of the event loop: about a millisecond.
_PARTITIONS_PER_TURN = 500


@dataclass(slots=True)
class PartitionHealth:
    """Counts over all partitions, as Kafka's metrics of these names have them.

    Attributes:
        led: partitions this broker leads; the next three and the bytes are of these.
        under_replicated: fewer in sync than there are replicas.
        under_min_isr: fewer in sync than min.insync.replicas: acks=all is refused.
        at_min_isr: one replica less, and acks=all is refused.
        followed: partitions this broker copies.
        offline: without a leader, which the controller counts, or on a failed directory here.
        not_preferred: led by another replica than the first; the controller counts.
    """

    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    size_bytes: int = 0
    followed: int = 0
    offline: int = 0
    not_preferred: int = 0

    def add(self, topic: HostedTopic, index: int, broker: Broker, *, controller: bool) -> None:
        """Count a partition of a topic, which this broker leads, follows or only knows."""
        record, partition = topic.record.partitions[index], topic.partitions[index]
        self.followed += index in topic.followers
        if controller:
            self.offline += record.leader == NO_LEADER
            self.not_preferred += record.leader not in (NO_LEADER, record.replicas[0])
        if partition is None:
            self.offline += record.leader == broker.node_id
            return
        self.led += 1
        self.size_bytes += partition.log.size_bytes
        state, min_insync = partition.state, partition.log.config.min_insync_replicas
        self.under_replicated += len(state.isr) < len(record.replicas) - len(record.adding)
        if not state.has_enough(min_insync):
            self.under_min_isr += 1
        elif len(record.replicas) > 1:
            self.at_min_isr += len(state.isr) <= min_insync


async def partition_health(broker: Broker) -> PartitionHealth:
    """Count everything, and let the event loop turn in between."""
    health, visited = PartitionHealth(), 0
    controller = broker.membership.controller_id == broker.node_id
    for topic in list(broker.topics):
        index = 0
        # The topic may change at each turn: its partitions are counted again.
        while index < min(len(topic.partitions), len(topic.record.partitions)):
            health.add(topic, index, broker, controller=controller)
            index += 1
            visited += 1
            if visited % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
    return health
