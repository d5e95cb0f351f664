"""The console's counts of partitions in danger."""

from headrace.client.network.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.console.status.cluster_health import ClusterHealth


def partition(index: int, leader: int, replicas: int, in_sync: int) -> PartitionMetadata:
    numbers = tuple(range(1, replicas + 1))
    return PartitionMetadata(index, leader, 0, numbers, numbers[:in_sync], (), None)


def health(*partitions: PartitionMetadata, min_isr: int) -> ClusterHealth:
    rows = {each.index: each for each in partitions}
    topic = TopicMetadata("orders", None, False, rows, None)
    return ClusterHealth.of(Metadata("id", 1, {}, {"orders": topic}), {"orders": min_isr})


def test_each_danger_is_counted() -> None:
    found = health(
        partition(0, 1, replicas=3, in_sync=3),
        partition(1, 2, replicas=3, in_sync=2),
        partition(2, 1, replicas=3, in_sync=1),
        partition(3, -1, replicas=3, in_sync=1),
        min_isr=2,
    )

    assert (found.partitions, found.offline) == (4, 1)
    assert (found.under_replicated, found.under_min_isr) == (3, 1)
    assert found.leads == {1: 2, 2: 1}


def test_a_topic_with_fewer_replicas_than_asked_for_needs_all_it_has() -> None:
    assert health(partition(0, 1, replicas=1, in_sync=1), min_isr=2).under_min_isr == 0
