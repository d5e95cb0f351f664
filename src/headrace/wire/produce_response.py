"""Produce responses, versions 3 to 13.

    topics [ name string (3-12) or topic_id uuid (13) | partitions [
            index int32 | error_code int16 | base_offset int64 | log_append_time_ms int64
            | log_start_offset int64 (5+) | record_errors [ batch_index int32 | message ] (8+)
            | error_message nullable string (8+) | tags (9+; 0: current leader, 10+) ] | tags ]
    | throttle_ms int32 | tags (9+; 0: node endpoints, 10+)

A partition without an error costs one `struct` call.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from headrace.wire.leader import (
    LeaderHint,
    NodeEndpoint,
    endpoints_tag,
    hint_tag,
    read_endpoints,
    read_hint,
)
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
from headrace.wire.produce_request import FIRST_FLEXIBLE, FIRST_TOPIC_ID
from headrace.wire.topic import pack_topic, read_topic

FIRST_LOG_START: Final = 5
FIRST_RECORD_ERRORS: Final = 8
FIRST_LEADER_HINT: Final = 10

_FIELDS_3: Final = Struct(">ihqq")
_FIELDS_5: Final = Struct(">ihqqq")
# With one topic and one partition: the size, the correlation id, no tags, a topic; and behind the
# topic's name a partition, its numbers, no errors, message and tags, the throttle time, no tags.
_FRONT_10: Final = Struct(">iiBB")
_PLAIN_10: Final = Struct(">BihqqqBBBBiB")
_PLAIN_10_BYTES: Final = _FRONT_10.size - 4 + _PLAIN_10.size
_DETAILS_AT: Final = 5  # where a result's numbers end
_NO_DETAILS: Final = ((), None, None)
_PACKED_NO_DETAILS: Final = {
    # What follows the numbers when there are no record errors, no message and no hint.
    False: INT32.pack(0) + b"\xff\xff",
    True: b"\x01\x00\x00",
}


class RecordError(NamedTuple):
    """Which record of the batch was refused, and why (KIP-467)."""

    batch_index: int
    message: str | None = None


class ProducePartitionResult(NamedTuple):
    """What became of one partition's records.

    `log_append_time_ms` is -1 unless the topic stamps records itself.
    """

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    leader: LeaderHint | None = None


class ProduceTopicResult(NamedTuple):
    """`name` is sent to version 12, `topic_id` from version 13."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[ProducePartitionResult]


class ProduceResponse(NamedTuple):
    topics: list[ProduceTopicResult]
    throttle_ms: int
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def pack_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceTopicResult],
    *,
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return a whole response with its size in front."""
    if version >= FIRST_LEADER_HINT and len(topics) == 1 and not node_endpoints:
        name, topic_id, partitions = topics[0]
        if len(partitions) == 1 and partitions[0][_DETAILS_AT:] == _NO_DETAILS:
            numbers = partitions[0][:_DETAILS_AT]
            return pack_plain_produce_response(
                version, correlation_id, name, topic_id, *numbers, throttle_ms
            )
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(4)
    out += INT32.pack(correlation_id)
    if flexible:
        out += NOTHING
    out += pack_count(len(topics), flexible)
    for topic in topics:
        out += pack_topic(topic.name, topic.topic_id, version >= FIRST_TOPIC_ID, flexible)
        out += pack_count(len(topic.partitions), flexible)
        for partition in topic.partitions:
            _pack_partition(out, version, partition)
        if flexible:
            out += NOTHING
    out += INT32.pack(throttle_ms)
    if version >= FIRST_LEADER_HINT:
        out += endpoints_tag(node_endpoints)
    elif flexible:
        out += NOTHING
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


@lru_cache(maxsize=4096)
def _packed_name(name: str) -> bytes:
    return pack_string(name, True)


def pack_plain_produce_response(
    version: int,
    correlation_id: int,
    name: str | None,
    topic_id: UUID | None,
    partition: int,
    error_code: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
    throttle_ms: int,
) -> bytes:
    """Return the response to most requests: one partition, no error details; from version 10 on."""
    if topic_id is not None and version >= FIRST_TOPIC_ID:
        topic = topic_id.bytes
    elif name is not None and version < FIRST_TOPIC_ID:
        topic = _packed_name(name)
    else:
        topic = pack_topic(name, topic_id, version >= FIRST_TOPIC_ID, True)
    return b"".join(
        (
            _FRONT_10.pack(_PLAIN_10_BYTES + len(topic), correlation_id, 0, 2),
            topic,
            _PLAIN_10.pack(
                2,
                partition,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                1,
                0,
                0,
                0,
                throttle_ms,
                0,
            ),
        )
    )


class PlainProduceResponse:
    """`pack_plain_produce_response` for one partition and no error, made once for many answers."""

    __slots__ = ("_front", "_pack", "_tail", "_topic")

    def __init__(
        self, version: int, name: str | None, topic_id: UUID | None, partition: int
    ) -> None:
        whole = pack_plain_produce_response(version, 0, name, topic_id, partition, 0, 0, 0, 0, 0)
        numbers_at = len(whole) - _PLAIN_10.size + 1 + 4 + 2
        self._front = whole[:4]
        self._topic = whole[8:numbers_at]
        self._tail = whole[numbers_at + 24 :]
        self._pack = Struct(f">4si{len(self._topic)}sqqq{len(self._tail)}s").pack

    def pack(
        self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
    ) -> bytes:
        return self._pack(
            self._front,
            correlation_id,
            self._topic,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            self._tail,
        )


def _pack_partition(out: bytearray, version: int, partition: ProducePartitionResult) -> None:
    index, code, base, append_time_ms, log_start, errors, message, leader = partition
    if version < FIRST_LOG_START:
        out += _FIELDS_3.pack(index, code, base, append_time_ms)
        return
    out += _FIELDS_5.pack(index, code, base, append_time_ms, log_start)
    if version < FIRST_RECORD_ERRORS:
        return
    flexible = version >= FIRST_FLEXIBLE
    if not errors and message is None and leader is None:
        out += _PACKED_NO_DETAILS[flexible]
        return
    out += pack_count(len(errors), flexible)
    for batch_index, why in errors:
        out += INT32.pack(batch_index) + pack_string(why, flexible)
        if flexible:
            out += NOTHING
    out += pack_string(message, flexible)
    if leader is not None and version >= FIRST_LEADER_HINT:
        out += b"\x01" + hint_tag(0, leader)
    elif flexible:
        out += NOTHING


def read_produce_response(version: int, frame: Frame, at: int) -> ProduceResponse:
    """Return the body at `at`. Raises what `primitive.READ_ERRORS` names when it does not hold."""
    flexible = version >= FIRST_FLEXIBLE
    count, at = read_count(frame, at, flexible, 3)
    topics = []
    for _ in range(count):
        name, topic_id, at = read_topic(frame, at, version >= FIRST_TOPIC_ID, flexible)
        partition_count, at = read_count(frame, at, flexible, _FIELDS_3.size)
        partitions = []
        for _ in range(partition_count):
            partition, at = _read_partition(version, frame, at)
            partitions.append(partition)
        if flexible:
            _, at = read_tags(frame, at)
        topics.append(ProduceTopicResult(name, topic_id, partitions))
    (throttle_ms,) = INT32.unpack_from(frame, at)
    endpoints: tuple[NodeEndpoint, ...] = ()
    if flexible:
        tags, at = read_tags(frame, at + 4)
        if 0 in tags:
            endpoints = read_endpoints(frame, tags[0][0])
    return ProduceResponse(topics, throttle_ms, endpoints)


def _read_partition(version: int, frame: Frame, at: int) -> tuple[ProducePartitionResult, int]:
    flexible = version >= FIRST_FLEXIBLE
    fields = _FIELDS_5 if version >= FIRST_LOG_START else _FIELDS_3
    index, code, base, append_time_ms, *log_start = fields.unpack_from(frame, at)
    log_start_offset = log_start[0] if log_start else -1
    at += fields.size
    if version < FIRST_RECORD_ERRORS:
        return ProducePartitionResult(index, code, base, append_time_ms, log_start_offset), at
    count, at = read_count(frame, at, flexible, 6)
    if count < 0:
        raise Malformed(f"record_errors has {count} items at byte {at}")
    errors = []
    for _ in range(count):
        (batch_index,) = INT32.unpack_from(frame, at)
        why, at = read_string(frame, at + 4, flexible)
        if flexible:
            _, at = read_tags(frame, at)
        errors.append(RecordError(batch_index, why))
    message, at = read_string(frame, at, flexible)
    leader: LeaderHint | None = None
    if flexible:
        tags, at = read_tags(frame, at)
        if 0 in tags:
            leader = read_hint(frame, tags[0][0])
    result = ProducePartitionResult(
        index, code, base, append_time_ms, log_start_offset, tuple(errors), message, leader
    )
    return result, at
