"""Whether a cluster is whole: every broker answers, every partition has its leader and replicas."""

from typing import Any

from headrace.client.error import Unreachable
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool


def cluster_health(pool: ConnectionPool, metadata: Metadata) -> dict[str, Any]:
    """Return what `headrace cluster health` shows; `healthy` is the verdict."""
    silent = []
    for node_id in sorted(metadata.brokers):
        try:
            pool.node(node_id)
        except Unreachable:
            silent.append(node_id)
    troubled = troubled_partitions(metadata)
    controller = metadata.controller in metadata.brokers
    return {
        "healthy": controller and not (silent or any(troubled.values())),
        "controller": metadata.controller if controller else None,
        "brokers": sorted(metadata.brokers),
        "unreachable_brokers": silent,
        **troubled,
    }


def troubled_partitions(metadata: Metadata) -> dict[str, list[str]]:
    """Return the partitions without a leader, with replicas out of sync, and with replicas that are
    offline."""
    partitions = [
        (str(topic.partition(index)), partition)
        for _, topic in sorted(metadata.topics.items())
        for index, partition in topic.partitions.items()
    ]
    return {
        "leaderless_partitions": [each for each, found in partitions if found.leader < 0],
        "under_replicated_partitions": [
            each for each, found in partitions if found.under_replicated
        ],
        "offline_replicas": [each for each, found in partitions if found.offline],
    }
