"""Fetch responses, versions 4 to 18, with the records left where they are.

    throttle_ms int32 | error_code int16 (7+) | session_id int32 (7+) | topics [
        name string (4-12) or topic_id uuid (13+) | partitions [
            partition int32 | error_code int16 | high_watermark int64 | last_stable_offset int64
            | log_start_offset int64 (5+) | aborted nullable [ producer_id int64
            | first_offset int64 | tags ] | preferred_read_replica int32 (11+)
            | records nullable bytes | tags (12+; 0: diverging epoch, 1: current leader) ] | tags ]
    | tags (12+; 0: node endpoints, 16+)

The broker sends records with sendfile. So a response is packed into parts: bytes, and between them
the objects that stand for records. The client reads a response into views of the frame.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from headrace.wire.fetch_request import FIRST_FLEXIBLE, FIRST_SESSION, FIRST_TOPIC_ID
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
    pack_count,
    pack_uvarint,
    read_count,
    read_tags,
)
from headrace.wire.topic import pack_topic, read_topic

FIRST_LOG_START: Final = 5
FIRST_PREFERRED_REPLICA: Final = 11
FIRST_NODE_ENDPOINTS: Final = 16

_FIELDS_4: Final = Struct(">ihqq")
_FIELDS_5: Final = Struct(">ihqqq")
_PLAIN_12: Final = Struct(">ihqqqBi")  # a partition without aborted transactions
_EMPTY_12: Final = Struct(">ihqqqBiBB")  # also without records and tagged fields
_SESSION: Final = Struct(">ihi")
_ABORTED: Final = Struct(">qq")
_DIVERGING: Final = Struct(">iq")

# No preferred replica, no leader elsewhere, no diverging epoch: the last fields of a result.
_NO_MORE: Final = [-1, None, None]

R = TypeVar("R")


class AbortedTransaction(NamedTuple):
    """A read_committed client drops this producer's records from `first_offset` to its marker."""

    producer_id: int
    first_offset: int


class DivergingEpoch(NamedTuple):
    """The largest epoch a follower shares with its leader, and where it ends (KIP-595)."""

    epoch: int
    end_offset: int


class FetchPartitionResult(NamedTuple, Generic[R]):
    """One partition's answer.

    Attributes:
        records_bytes: how long the records are; 0 sends none.
        records: what stands for them: the broker's file slices, the client's view.
        aborted: in offset order; None unless the reader asked for committed records only.
    """

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records_bytes: int = 0
    records: R | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    leader: LeaderHint | None = None
    diverging_epoch: DivergingEpoch | None = None


class FetchTopicResult(NamedTuple, Generic[R]):
    """`name` is sent to version 12, `topic_id` from version 13."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchPartitionResult[R]]


class FetchResponse(NamedTuple):
    topics: list[FetchTopicResult[memoryview]]
    throttle_ms: int
    error_code: int = 0
    session_id: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def pack_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[FetchTopicResult[R]],
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | R]:
    """Return a whole response as parts to send one after the other, its size in front.

    Between the bytes stand, untouched, the `records` of each partition with `records_bytes` above
    zero. The size counts both, so the sender must send exactly that many bytes for each.
    """
    flexible = version >= FIRST_FLEXIBLE
    by_id = version >= FIRST_TOPIC_ID
    parts: list[bytes | R] = []
    out = bytearray(INT32.pack(correlation_id))
    if flexible:
        out += NOTHING
    out += (
        _SESSION.pack(throttle_ms, error_code, session_id)
        if version >= FIRST_SESSION
        else INT32.pack(throttle_ms)
    )
    out += pack_count(len(topics), flexible)
    size = 0
    for name, topic_id, partitions in topics:
        out += pack_topic(name, topic_id, by_id, flexible)
        out += pack_count(len(partitions), flexible)
        for partition in partitions:
            index, code, high, stable, start, records_bytes, records, aborted, *more = partition
            if flexible and aborted is None and more == _NO_MORE:
                # Most partitions; and of a response to a fetch that names many, most are empty.
                if not records_bytes:
                    out += _EMPTY_12.pack(index, code, high, stable, start, 0, -1, 1, 0)
                    continue
                out += _PLAIN_12.pack(index, code, high, stable, start, 0, -1)
                out += pack_uvarint(records_bytes + 1)
            else:
                _pack_partition_head(out, version, flexible, partition)
            if records_bytes > 0:
                assert records is not None
                size += len(out) + records_bytes
                parts += (bytes(out), records)
                out.clear()
            if flexible:
                if partition.leader is None and partition.diverging_epoch is None:
                    out += NOTHING
                else:
                    out += _partition_tags(partition)
        if flexible:
            out += NOTHING
    if flexible:
        out += endpoints_tag(node_endpoints if version >= FIRST_NODE_ENDPOINTS else ())
    size += len(out)
    if out:
        parts.append(bytes(out))
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = INT32.pack(size) + first
    return parts


def _pack_partition_head(
    out: bytearray, version: int, flexible: bool, partition: FetchPartitionResult[R]
) -> None:
    """Append everything up to the records, their length included."""
    index, code, high_watermark, last_stable, log_start, size, _, aborted, preferred, *_ = partition
    if aborted is None and flexible:
        out += _PLAIN_12.pack(
            index, code, high_watermark, last_stable, log_start, 0, preferred
        ) + pack_uvarint(size + 1)
        return
    if version >= FIRST_LOG_START:
        out += _FIELDS_5.pack(index, code, high_watermark, last_stable, log_start)
    else:
        out += _FIELDS_4.pack(index, code, high_watermark, last_stable)
    _pack_aborted(out, flexible, aborted)
    if version >= FIRST_PREFERRED_REPLICA:
        out += INT32.pack(preferred)
    out += pack_count(size, flexible)


def _pack_aborted(
    out: bytearray, flexible: bool, aborted: Sequence[AbortedTransaction] | None
) -> None:
    if aborted is None:
        out += pack_count(-1, flexible)
        return
    out += pack_count(len(aborted), flexible)
    for transaction in aborted:
        out += _ABORTED.pack(*transaction)
        if flexible:
            out += NOTHING


def _partition_tags(partition: FetchPartitionResult[R]) -> bytes:
    leader, diverging = partition.leader, partition.diverging_epoch
    tags = []
    if diverging is not None:
        tags.append(hint_tag(0, diverging, _DIVERGING))
    if leader is not None:
        tags.append(hint_tag(1, leader))
    return bytes((len(tags),)) + b"".join(tags)


def read_fetch_response(version: int, frame: Frame, at: int) -> FetchResponse:
    """Return the body at `at`, records as views into `frame`.

    Raises what `primitive.READ_ERRORS` names when it does not hold.
    """
    view = memoryview(frame)
    flexible = version >= FIRST_FLEXIBLE
    error_code = session_id = 0
    if version >= FIRST_SESSION:
        throttle_ms, error_code, session_id = _SESSION.unpack_from(view, at)
        at += _SESSION.size
    else:
        (throttle_ms,) = INT32.unpack_from(view, at)
        at += 4
    count, at = read_count(view, at, flexible, 3)
    topics = []
    for _ in range(count):
        name, topic_id, at = read_topic(view, at, version >= FIRST_TOPIC_ID, flexible)
        partition_count, at = read_count(view, at, flexible, _FIELDS_4.size)
        partitions = []
        for _ in range(partition_count):
            partition, at = _read_partition(version, view, at)
            partitions.append(partition)
        if flexible:
            _, at = read_tags(view, at)
        topics.append(FetchTopicResult(name, topic_id, partitions))
    endpoints: tuple[NodeEndpoint, ...] = ()
    if flexible:
        tags, at = read_tags(view, at)
        if 0 in tags:
            endpoints = read_endpoints(view, tags[0][0])
    return FetchResponse(topics, throttle_ms, error_code, session_id, endpoints)


def _read_partition(
    version: int, view: memoryview, at: int
) -> tuple[FetchPartitionResult[memoryview], int]:
    flexible = version >= FIRST_FLEXIBLE
    fields = _FIELDS_5 if version >= FIRST_LOG_START else _FIELDS_4
    index, code, high_watermark, last_stable, *log_start = fields.unpack_from(view, at)
    aborted, at = _read_aborted(view, at + fields.size, flexible)
    preferred = -1
    if version >= FIRST_PREFERRED_REPLICA:
        (preferred,) = INT32.unpack_from(view, at)
        at += 4
    size, at = read_count(view, at, flexible, 1)
    records = None if size < 0 else view[at : at + size]
    at += max(size, 0)
    leader = diverging = None
    if flexible:
        tags, at = read_tags(view, at)
        if tags:
            leader = read_hint(view, tags[1][0]) if 1 in tags else None
            diverging = (
                DivergingEpoch(*_DIVERGING.unpack_from(view, tags[0][0])) if 0 in tags else None
            )
    result = FetchPartitionResult(
        index,
        code,
        high_watermark,
        last_stable,
        log_start[0] if log_start else -1,
        max(size, 0),
        records,
        aborted,
        preferred,
        leader,
        diverging,
    )
    return result, at


def _read_aborted(
    view: memoryview, at: int, flexible: bool
) -> tuple[list[AbortedTransaction] | None, int]:
    count, at = read_count(view, at, flexible, _ABORTED.size)
    if count < 0:
        return None, at
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(view, at)))
        at += _ABORTED.size
        if flexible:
            _, at = read_tags(view, at)
    return aborted, at
