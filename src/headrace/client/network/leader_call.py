"""Requests about partitions, each sent to the partition's leader."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from headrace.client.error import BrokerError, ClientError, ConnectionLost, Unreachable
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import STALE_LEADER, Retry
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

Item = TypeVar("Item")


def call_leaders(
    pool: ConnectionPool,
    items: Mapping[TopicPartition, Item],
    call: Callable[[BrokerConnection, Mapping[TopicPartition, Item]], Mapping[TopicPartition, Any]],
) -> dict[TopicPartition, Any]:
    """Send every partition's item to its leader, and again to the new one where a leader moved.

    Args:
        call: sends one request to one broker for the partitions it leads, and returns a result or
            an error per partition. Sending the request twice must do no harm.

    Returns:
        A result or a `ClientError` per partition, in the order of `items`.
    """
    retry = Retry(pool.settings)
    done: dict[TopicPartition, Any] = {}
    left = dict(items)
    metadata = pool.known_metadata(left.keys())
    while left:
        missing, by_leader = split_by_leader(metadata, left)
        done |= missing
        for leader, partitions in by_leader.items():
            led = {partition: items[partition] for partition in partitions}
            try:
                done |= call(pool.node(leader), led)
            except (ConnectionLost, Unreachable) as error:
                done |= dict.fromkeys(partitions, error)
        left = {each: items[each] for each in left if _worth_a_retry(done.get(each))}
        if left:
            if not retry.pause():
                break
            metadata = pool.metadata({partition.topic for partition in left})
    return {partition: done[partition] for partition in items}


def split_by_leader(
    metadata: Metadata, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, BrokerError], dict[int, list[TopicPartition]]]:
    """Return the errors of partitions without a leader, and the other partitions by leader."""
    missing: dict[TopicPartition, BrokerError] = {}
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        error = partition_error(metadata, partition)
        if error is None:
            by_leader[metadata.leader(partition)].append(partition)
        else:
            missing[partition] = error
    return missing, by_leader


def partition_error(metadata: Metadata, partition: TopicPartition) -> BrokerError | None:
    """Return why no request about this partition can be sent, or None if it has a leader."""
    topic = metadata.topics.get(partition.topic)
    if topic is None:
        return BrokerError(ErrorCode.unknown_topic_or_partition)
    if topic.error is not None:
        return topic.error
    found = topic.partitions.get(partition.partition)
    if found is None:
        return BrokerError(
            ErrorCode.unknown_topic_or_partition,
            f"topic {partition.topic} has no partition {partition.partition}",
        )
    if found.leader < 0:
        return found.error or BrokerError(ErrorCode.leader_not_available)
    return None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition indexes by topic, as requests list them."""
    found: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        found[partition.topic].append(partition.partition)
    return found


def walk(
    topics: Iterable[Any], index: str = "partition_index"
) -> Iterator[tuple[TopicPartition, Any]]:
    """Iterate over the partitions of a response that groups them by topic."""
    for topic in topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, getattr(partition, index)), partition


def _worth_a_retry(outcome: Any) -> bool:
    if isinstance(outcome, BrokerError):
        return outcome.code in STALE_LEADER
    return isinstance(outcome, ClientError)
