"""Looks up where a partition begins and ends, and the first offset of a time (ListOffsets)."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.client.error import BrokerError, ClientError, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, call_leaders, walk
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey

LATEST = -1
"""Instead of a time: the end of the log, as far as the reader may see."""

EARLIEST = -2
"""Instead of a time: the log start."""


class FoundOffset(NamedTuple):
    """The offset and time of a record; the offset is -1 when no record is as young."""

    offset: int
    timestamp_ms: int


def list_offsets(
    pool: ConnectionPool,
    times: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, FoundOffset | ClientError]:
    """Return each partition's first offset whose record is not older than a time.

    Args:
        times: in milliseconds, or `EARLIEST` or `LATEST`.
        read_committed: `LATEST` means the last stable offset, not the high watermark.
    """

    def call(
        connection: BrokerConnection, led: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | BrokerError]:
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": index, "timestamp": led[TopicPartition(topic, index)]}
                    for index in indexes
                ],
            }
            for topic, indexes in by_topic(led).items()
        ]
        body = {
            "replica_id": -1,
            "isolation_level": int(read_committed),
            "topics": topics,
            "timeout": pool.settings.request_timeout_ms,
        }
        answer = connection.call(ApiKey.LIST_OFFSETS, body)
        return {
            partition: error_of(each.error_code) or FoundOffset(each.offset, each.timestamp)
            for partition, each in walk(answer.topics)
        }

    return call_leaders(pool, times, call)


class LogExtent(NamedTuple):
    """A partition's first offset and the one after its last."""

    start: int
    end: int


def extents(
    pool: ConnectionPool, partitions: list[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, LogExtent | ClientError]:
    """Return where each partition begins and ends."""
    starts = list_offsets(pool, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(pool, dict.fromkeys(partitions, LATEST), read_committed=read_committed)
    found: dict[TopicPartition, LogExtent | ClientError] = {}
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        if isinstance(start, FoundOffset) and isinstance(end, FoundOffset):
            found[partition] = LogExtent(start.offset, end.offset)
        else:
            found[partition] = start if isinstance(start, ClientError) else end  # type: ignore[assignment]
    return found
