"""ListOffsets requests read, and responses without errors written, versions 1 to 11.

    replica_id int32 | isolation_level int8 (2+) | topics [ name string | partitions [
        partition int32 | current_leader_epoch int32 (4+) | timestamp int64 | tags (6+) ]
        | tags (6+) ] | timeout_ms int32 (10+) | tags (6+)

    throttle_ms int32 (2+) | topics [ name string | partitions [
        partition int32 | error_code int16 | timestamp int64 | offset int64
        | leader_epoch int32 (4+) | tags (6+) ] | tags (6+) ] | tags (6+)

By hand, because a consumer of librdkafka that begins to read sends one request per partition.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

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
)

FIRST_ISOLATION_LEVEL: Final = 2
FIRST_LEADER_EPOCH: Final = 4
FIRST_FLEXIBLE: Final = 6
FIRST_TIMEOUT: Final = 10

_READER_2: Final = Struct(">ib")
_WANTED_1: Final = Struct(">iq")
_WANTED_4: Final = Struct(">iiq")
_FOUND_1: Final = Struct(">ihqq")
_FOUND_4: Final = Struct(">ihqqi")
_FOUND_6: Final = Struct(">ihqqix")  # and no tagged fields


class WantedOffset(NamedTuple):
    """An offset that is asked for. The epoch is -1 when the client does not know it."""

    partition: int
    current_leader_epoch: int
    timestamp: int


class WantedTopic(NamedTuple):
    name: str
    partitions: list[WantedOffset]


class ListOffsetsRequest(NamedTuple):
    """`replica_id` is -1 for a client."""

    replica_id: int
    isolation_level: int
    topics: list[WantedTopic]
    timeout_ms: int


class ListedOffset(NamedTuple):
    """An offset that was found; -1 for each field that has no value."""

    partition: int
    timestamp: int
    offset: int
    leader_epoch: int


def read_list_offsets_request(version: int, frame: Frame, at: int) -> ListOffsetsRequest:
    """Return the body at `at`. Raises what `primitive.READ_ERRORS` names when it does not hold."""
    flexible = version >= FIRST_FLEXIBLE
    isolation_level = timeout_ms = 0
    if version >= FIRST_ISOLATION_LEVEL:
        replica_id, isolation_level = _READER_2.unpack_from(frame, at)
        at += _READER_2.size
    else:
        (replica_id,) = INT32.unpack_from(frame, at)
        at += 4
    count, at = read_count(frame, at, flexible, 3)
    items_left = _checked(count, REQUEST_MAX_ITEMS)
    topics = []
    for _ in range(count):
        name, at = read_string(frame, at, flexible)
        if name is None:
            raise Malformed(f"a topic without a name at byte {at}")
        partition_count, at = read_count(frame, at, flexible, _WANTED_1.size)
        items_left = _checked(partition_count, items_left)
        partitions, at = _read_partitions(version, frame, at, partition_count)
        topics.append(WantedTopic(name, partitions))
    if version >= FIRST_TIMEOUT:
        (timeout_ms,) = INT32.unpack_from(frame, at)
        at += 4
    if flexible:
        _, at = read_tags(frame, at)
    if at > len(frame):
        raise Malformed(f"it ends at byte {at} and only {len(frame)} are there")
    return ListOffsetsRequest(replica_id, isolation_level, topics, timeout_ms)


def _checked(count: int, items_left: int) -> int:
    if not 0 <= count <= items_left:
        raise Malformed(
            f"{count} topics or partitions: a request may have at most {REQUEST_MAX_ITEMS}"
        )
    return items_left - count


def _read_partitions(
    version: int, frame: Frame, at: int, count: int
) -> tuple[list[WantedOffset], int]:
    flexible = version >= FIRST_FLEXIBLE
    partitions = []
    for _ in range(count):
        epoch = -1
        if version >= FIRST_LEADER_EPOCH:
            index, epoch, timestamp = _WANTED_4.unpack_from(frame, at)
            at += _WANTED_4.size
        else:
            index, timestamp = _WANTED_1.unpack_from(frame, at)
            at += _WANTED_1.size
        if flexible:
            _, at = read_tags(frame, at)
        partitions.append(WantedOffset(index, epoch, timestamp))
    if flexible:
        _, at = read_tags(frame, at)
    return partitions, at


def pack_list_offsets_response(
    version: int, correlation_id: int, topics: Sequence[tuple[str, Sequence[ListedOffset]]]
) -> bytes:
    """Return a response with its size in front, where every partition was found."""
    flexible = version >= FIRST_FLEXIBLE
    end = NOTHING if flexible else b""
    out = bytearray(4)
    out += INT32.pack(correlation_id)
    out += end  # of the header
    if version >= FIRST_ISOLATION_LEVEL:
        out += INT32.pack(0)
    out += pack_count(len(topics), flexible)
    for name, partitions in topics:
        out += pack_string(name, flexible)
        out += pack_count(len(partitions), flexible)
        for index, timestamp, offset, epoch in partitions:
            if flexible:
                out += _FOUND_6.pack(index, 0, timestamp, offset, epoch)
            elif version >= FIRST_LEADER_EPOCH:
                out += _FOUND_4.pack(index, 0, timestamp, offset, epoch)
            else:
                out += _FOUND_1.pack(index, 0, timestamp, offset)
        out += end
    out += end
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)
