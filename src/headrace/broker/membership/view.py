"""What clients are told of the cluster: its brokers, and who leads which partition.

A broker that is not among the members any more is still named where it is a replica; it is offline
then. A leader that is gone but not replaced yet is no leader for a client.
"""

from collections.abc import Iterable
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.replica.topic_table import HostedTopic
from headrace.cluster.broker import BrokerRecord
from headrace.model.ids import BrokerId
from headrace.wire.error_code import ErrorCode
from headrace.wire.leader import LeaderHint, NodeEndpoint


def describe_nodes(broker: Broker, call: Call) -> list[dict[str, Any]]:
    """All brokers that clients of the call's listener can reach."""
    nodes = [
        node
        for _, member in sorted(broker.members.items())
        if (node := _node(broker, call, member)) is not None
    ]
    return nodes or [describe_node(broker, call)]


def describe_node(broker: Broker, call: Call) -> dict[str, Any]:
    """This broker, as clients of the call's listener should reach it."""
    told = broker.advertised_listeners[call.connection.listener.name]
    return {
        "node_id": broker.node_id,
        "host": told.host,
        "port": told.port,
        "rack": broker.settings.rack,
    }


def find_node(broker: Broker, call: Call, broker_id: BrokerId) -> dict[str, Any] | None:
    """Another broker or this one, if it runs and listens where the client comes from."""
    if broker_id == broker.node_id:
        return describe_node(broker, call)
    member = broker.members.get(broker_id)
    return None if member is None else _node(broker, call, member)


def _node(broker: Broker, call: Call, member: BrokerRecord) -> dict[str, Any] | None:
    if member.broker_id == broker.node_id:
        return describe_node(broker, call)
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
    broker: Broker, call: Call, hints: Iterable[LeaderHint | None]
) -> list[NodeEndpoint]:
    """How to reach the leaders that an answer hints at (KIP-951)."""
    leaders = sorted({BrokerId(hint.leader_id) for hint in hints if hint is not None})
    nodes = (find_node(broker, call, leader) for leader in leaders)
    return [NodeEndpoint(**node) for node in nodes if node is not None]


def describe_partition(broker: Broker, topic: HostedTopic, index: int) -> dict[str, Any]:
    """As Metadata and DescribeTopicPartitions tell it."""
    record = topic.record.partitions[index]
    leader = record.leader
    here = leader == broker.node_id
    led = leader in broker.members
    if here:
        partition = topic.partitions[index]
        led = partition is not None and not partition.stranded
    alive = {*broker.members, broker.node_id}
    offline = [each for each in record.replicas if each not in alive]
    if here and topic.partitions[index] is None:
        offline.append(broker.node_id)
    return {
        "partition_index": index,
        "error_code": ErrorCode.none if led else ErrorCode.leader_not_available,
        "leader_id": leader if led else -1,
        "leader_epoch": record.leader_epoch if led else -1,
        "replica_nodes": list(record.replicas),
        "isr_nodes": list(record.isr),
        "offline_replicas": offline,
    }
