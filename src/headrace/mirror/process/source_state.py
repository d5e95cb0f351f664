"""Finds out what became of a log at the source when the position does not fit it any more."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from headrace.client.error import BrokerError, ClientError, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, call_leaders
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.mirror.process.position import Position
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey

_CONSUMER = -1


class StopReason(Enum):
    """Why a partition is not copied any further until a person has decided."""

    TRUNCATED = "truncated"
    RECREATED = "recreated"
    UNKNOWN_POSITION = "unknown_position"
    DAMAGED = "damaged"
    GONE = "gone"
    DENIED = "denied"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Stopped:
    """A partition that is not copied further, with a sentence that says why and what to do."""

    reason: StopReason
    message: str


def recreated(partition: TopicPartition, before: UUID | None, now: UUID | None) -> Stopped | None:
    """Return why a topic with another id than before must not be read on; None if it may."""
    if before is None or now is None or before == now:
        return None
    return Stopped(
        StopReason.RECREATED,
        f"{partition}: the topic was deleted at the source and another one of its name was "
        "created. The target has records of the former one. Delete the topic at the target to "
        "copy the new one from its beginning",
    )


def truncated(partition: TopicPartition, offset: int, end: int) -> Stopped:
    """Return the state of a partition that lost records after they were copied."""
    return Stopped(
        StopReason.TRUNCATED,
        f"{partition}: the source lost records that were copied: its log goes back to offset "
        f"{end}, and {offset} is the next to copy. The target has records that the source has "
        "not. Delete the topic at the target to copy it from the beginning, or set the position",
    )


def out_of_range(
    pool: ConnectionPool, partition: TopicPartition, offset: int
) -> Stopped | LogExtent:
    """Return why an offset is out of range; where the log lies if retention removed the records.

    Raises:
        ClientError: the leader does not say where its log begins and ends.
    """
    extent = extents(pool, [partition])[partition]
    if isinstance(extent, ClientError):
        raise extent
    if offset > extent.end:
        return truncated(partition, offset, extent.end)
    return extent


def check_epoch(
    pool: ConnectionPool, partition: TopicPartition, position: Position
) -> Stopped | None:
    """Return that the source lost records before the position in a change of leaders, if it did.

    The leader says where the epoch of the last copied batch ended (KIP-320). When that is before
    the position, records that were copied were truncated, and others have their offsets now.
    """
    if position.leader_epoch < 0:
        return None
    outcome = call_leaders(pool, {partition: position.leader_epoch}, _epoch_ends)[partition]
    if isinstance(outcome, ClientError):
        raise outcome
    end = int(outcome)
    if 0 <= end < position.offset:
        return truncated(partition, position.offset, end)
    return None


def _epoch_ends(
    connection: BrokerConnection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | BrokerError]:
    topics = [
        {
            "topic": topic,
            "partitions": [
                {
                    "partition": index,
                    "current_leader_epoch": -1,
                    "leader_epoch": epochs[TopicPartition(topic, index)],
                }
                for index in indexes
            ],
        }
        for topic, indexes in by_topic(epochs).items()
    ]
    answer: Any = connection.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, {"replica_id": _CONSUMER, "topics": topics}
    )
    return {
        TopicPartition(topic.topic, each.partition): error_of(each.error_code)
        or int(each.end_offset)
        for topic in answer.topics
        for each in topic.partitions
    }
