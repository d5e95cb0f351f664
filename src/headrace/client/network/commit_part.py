"""Offsets to commit, cut into parts that a group's coordinator can write.

A coordinator writes all offsets of a request as one batch of `__consumer_offsets`, and refuses what
is larger than the topic's max.message.bytes, 1 MB by default, with INVALID_COMMIT_OFFSET_SIZE. That
is about 7,000 partitions.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from headrace.model.ids import TopicPartition

Item = TypeVar("Item")

MOST_BYTES: Final = 500_000
"""What a part takes of a batch, at most; a single offset is sent whatever it takes."""

# What a record takes beside the three texts: about 70 bytes in our brokers and in Kafka 4.
_RECORD_BYTES: Final = 80


def commit_parts(
    group: str, offsets: Mapping[TopicPartition, Item], texts: Mapping[TopicPartition, str]
) -> Iterator[dict[TopicPartition, Item]]:
    """Yield all offsets, in their order, so many at a time as one request may hold.

    Args:
        texts: the metadata of partitions that have some.
    """
    group_bytes = len(group.encode())
    part: dict[TopicPartition, Item] = {}
    size_bytes = 0
    for partition, item in offsets.items():
        text_bytes = len(partition.topic) + len(texts.get(partition, "").encode())
        record_bytes = _RECORD_BYTES + group_bytes + text_bytes
        if part and size_bytes + record_bytes > MOST_BYTES:
            yield part
            part, size_bytes = {}, 0
        part[partition] = item
        size_bytes += record_bytes
    if part:
        yield part
