"""Produce requests, versions 3 to 13, read and written without touching the records.

    transactional_id nullable string | acks int16 | timeout_ms int32 | topics [
        name string (3-12) or topic_id uuid (13) | partitions [
            index int32 | records nullable bytes | tags (9-13) ] | tags (9-13) ] | tags (9-13)

Version 9 made it flexible (KIP-482), version 13 replaced names by ids (KIP-516). The versions
between differ only in what the producer may expect (10: leader hints, 12: KIP-890).
"""

from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from headrace.wire.api import ApiKey
from headrace.wire.header import request_head
from headrace.wire.message_check import REQUEST_MAX_ITEMS
from headrace.wire.primitive import (
    INT32,
    NOTHING,
    Frame,
    Malformed,
    pack_count,
    pack_string,
    read_count,
    read_string,
    read_tags,
    read_uvarint,
)
from headrace.wire.topic import pack_topic, read_topic

FIRST_FLEXIBLE: Final = 9
FIRST_TOPIC_ID: Final = 13

_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_INDEX_AND_SIZE: Final = Struct(">ii")
_INDEX_AND_VARINT: Final = Struct(">iBBBB")

# Makes a NamedTuple in half the time its own constructor takes.
_new: Final = tuple.__new__


class ProducePartition(NamedTuple):
    """The records for one partition, still in the frame they came in."""

    partition: int
    records: memoryview | None


class ProduceTopic(NamedTuple):
    """Exactly one of `name` (to version 12) and `topic_id` (from version 13) is set."""

    name: str | None
    topic_id: UUID | None
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


def read_produce_request(version: int, frame: Frame, at: int) -> ProduceRequest:
    """Return the body at `at`. Raises what `primitive.READ_ERRORS` names when it does not hold."""
    view = memoryview(frame)
    flexible = version >= FIRST_FLEXIBLE
    transactional_id: str | None = None
    if flexible and not view[at]:
        at += 1
    else:
        transactional_id, at = read_string(view, at, flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(view, at)
    count, at = read_count(view, at + 6, flexible, 3)
    if not 0 <= count <= REQUEST_MAX_ITEMS:
        raise Malformed(f"{count} topics at byte {at}")
    topics = []
    items_left = REQUEST_MAX_ITEMS
    for _ in range(count):
        topic, at = _read_topic(version, view, at)
        topics.append(topic)
        items_left -= len(topic.partitions) + 1
        if items_left < 0:
            raise Malformed("it holds too many partitions")
    if flexible:
        at = _skip_tags(view, at)
    if at > len(view):
        raise Malformed(f"its topics end at byte {at} of {len(view)}")
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_topic(version: int, view: memoryview, at: int) -> tuple[ProduceTopic, int]:
    flexible = version >= FIRST_FLEXIBLE
    name, topic_id, at = read_topic(view, at, version >= FIRST_TOPIC_ID, flexible)
    count, at = read_count(view, at, flexible, 6)
    if count < 0 or count > REQUEST_MAX_ITEMS:
        raise Malformed(f"a topic with {count} partitions at byte {at}")
    if flexible:
        partitions, at = _read_flexible_partitions(view, at, count)
        at = _skip_tags(view, at)
    else:
        partitions, at = _read_partitions(view, at, count)
    return ProduceTopic(name, topic_id, partitions), at


def _read_partitions(view: memoryview, at: int, count: int) -> tuple[list[ProducePartition], int]:
    partitions = []
    end = len(view)
    for _ in range(count):
        index, size = _INDEX_AND_SIZE.unpack_from(view, at)
        at += 8
        if size < 0:
            if size != -1:
                raise Malformed(f"records of {size} bytes at byte {at}")
            partitions.append(ProducePartition(index, None))
            continue
        start = at
        at += size
        if at > end:
            raise Malformed(f"records of {size} bytes at byte {start} do not fit")
        partitions.append(_new(ProducePartition, (index, view[start:at])))
    return partitions, at


def _read_flexible_partitions(
    view: memoryview, at: int, count: int
) -> tuple[list[ProducePartition], int]:
    """Read each index and the first bytes of its length in one call: at least four bytes follow
    an index in any whole message (length, tags of partition, topic and request)."""
    partitions = []
    end = len(view)
    unpack = _INDEX_AND_VARINT.unpack_from
    for _ in range(count):
        index, size, second, third, _fourth = unpack(view, at)
        if size < 0x80:
            at += 5
        elif second < 0x80:
            size += (second << 7) - 0x80
            at += 6
        elif third < 0x80:
            size += (second << 7) + (third << 14) - 0x4080
            at += 7
        else:
            size, at = read_uvarint(view, at + 4)
        if size == 0:
            partitions.append(ProducePartition(index, None))
        else:
            start = at
            at += size - 1
            if at >= end:
                raise Malformed(f"records of {size - 1} bytes at byte {start} do not fit")
            partitions.append(_new(ProducePartition, (index, view[start:at])))
        if view[at]:
            _, at = read_tags(view, at)
        else:
            at += 1
    return partitions, at


def _skip_tags(view: memoryview, at: int) -> int:
    if view[at]:
        return read_tags(view, at)[1]
    return at + 1


def pack_produce_request(
    version: int, correlation_id: int, client_id: str | None, request: ProduceRequest
) -> list[bytes | memoryview]:
    """Return a whole request with its size in front, as parts to send one after the other.

    The records are among the parts themselves: nothing copies them.
    """
    flexible = version >= FIRST_FLEXIBLE
    end = NOTHING if flexible else b""
    parts: list[bytes | memoryview] = []
    pending = bytearray(request_head(ApiKey.PRODUCE, version, correlation_id, client_id))
    pending += pack_string(request.transactional_id, flexible)
    pending += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    pending += pack_count(len(request.topics), flexible)
    for topic in request.topics:
        pending += pack_topic(topic.name, topic.topic_id, version >= FIRST_TOPIC_ID, flexible)
        pending += pack_count(len(topic.partitions), flexible)
        for index, records in topic.partitions:
            pending += INT32.pack(index)
            pending += pack_count(-1 if records is None else len(records), flexible)
            if records:
                parts += (bytes(pending), records)
                pending.clear()
            pending += end
        pending += end
    pending += end
    parts.append(bytes(pending))
    return [INT32.pack(sum(map(len, parts))), *parts]
