"""The cluster as its clients see it: the brokers, and the leader of each partition.

A broker that is not running is still named where it is a replica; it is offline then. A leader that
is gone and not replaced yet is no leader for a client.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.broker.call import Call
from headrace.broker.config.listener import Listener
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.replica.topic_table import HostedTopic
from headrace.cluster.broker import BrokerRecord
from headrace.model.ids import BrokerId
from headrace.wire.error_code import ErrorCode
from headrace.wire.leader import LeaderHint, NodeEndpoint


class ClusterView:
    """Describes brokers, leaders and replicas for the responses to clients.

    Threads: event loop only.

    Args:
        members: the brokers that are running, by id.
        advertised_listeners: where clients reach this broker, by the name of the listener that
            they came through; complete before the first client comes.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        members: Mapping[BrokerId, BrokerRecord],
        advertised_listeners: Mapping[str, Listener],
    ) -> None:
        self._node_id = settings.node_id
        self._rack = settings.rack
        self._members = members
        self._advertised_listeners = advertised_listeners

    def describe_nodes(self, call: Call) -> list[dict[str, Any]]:
        """Describe all brokers that clients of the call's listener can reach."""
        nodes = [
            node
            for _, member in sorted(self._members.items())
            if (node := self._node(call, member)) is not None
        ]
        return nodes or [self.describe_node(call)]

    def describe_node(self, call: Call) -> dict[str, Any]:
        """Describe this broker, as clients of the call's listener reach it."""
        listener = self._advertised_listeners[call.connection.listener.name]
        return {
            "node_id": self._node_id,
            "host": listener.host,
            "port": listener.port,
            "rack": self._rack,
        }

    def find_node(self, call: Call, broker_id: BrokerId) -> dict[str, Any] | None:
        """Describe another broker or this one, if it runs and has the call's listener."""
        if broker_id == self._node_id:
            return self.describe_node(call)
        member = self._members.get(broker_id)
        return None if member is None else self._node(call, member)

    def _node(self, call: Call, member: BrokerRecord) -> dict[str, Any] | None:
        if member.broker_id == self._node_id:
            return self.describe_node(call)
        endpoint = member.endpoint(call.connection.listener.name)
        if endpoint is None:
            return None
        return {
            "node_id": member.broker_id,
            "host": endpoint.host,
            "port": endpoint.port,
            "rack": member.rack,
        }

    def leader_endpoints(
        self, call: Call, hints: Iterable[LeaderHint | None]
    ) -> list[NodeEndpoint]:
        """Return how to reach the leaders that a response hints at (KIP-951)."""
        leaders = sorted({BrokerId(hint.leader_id) for hint in hints if hint is not None})
        nodes = (self.find_node(call, leader) for leader in leaders)
        return [NodeEndpoint(**node) for node in nodes if node is not None]

    def describe_partition(self, topic: HostedTopic, index: int) -> dict[str, Any]:
        """Describe a partition for Metadata and DescribeTopicPartitions."""
        record = topic.record.partitions[index]
        leader = record.leader
        here = leader == self._node_id
        led = leader in self._members
        if here:
            partition = topic.partitions[index]
            led = partition is not None and not partition.stranded
        members, node_id = self._members, self._node_id
        offline = [each for each in record.replicas if each not in members and each != node_id]
        if here and topic.partitions[index] is None:
            offline.append(self._node_id)
        return {
            "partition_index": index,
            "error_code": ErrorCode.none if led else ErrorCode.leader_not_available,
            "leader_id": leader if led else -1,
            "leader_epoch": record.leader_epoch if led else -1,
            "replica_nodes": list(record.replicas),
            "isr_nodes": list(record.isr),
            "offline_replicas": offline,
        }
