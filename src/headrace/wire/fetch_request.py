"""Fetch requests, versions 4 to 18.

    replica_id int32 (4-14) | max_wait_ms int32 | min_bytes int32 | max_bytes int32
    | isolation_level int8 | session_id int32 (7+) | session_epoch int32 (7+) | topics [
        name string (4-12) or topic_id uuid (13+) | partitions [
            partition int32 | current_leader_epoch int32 (9+) | fetch_offset int64
            | last_fetched_epoch int32 (12+) | log_start_offset int64 (5+) | max_bytes int32
            | tags (12+) ] | tags (12+) ]
    | forgotten [ name or topic_id | partitions [ int32 ] | tags ] (7+)
    | rack_id string (11+) | tags (12+; 0: cluster id, 1: replica id and epoch, 15+)

The partitions of a topic have one size unless tagged fields follow, so that they are read by one
`iter_unpack`. Fetch sessions are KIP-227, topic ids KIP-516, the replica's epoch is KIP-903.
"""

from collections.abc import Callable
from operator import itemgetter
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
    pack_uvarint,
    read_count,
    read_string,
    read_tags,
)
from headrace.wire.topic import pack_topic, read_topic

FIRST_SESSION: Final = 7
FIRST_RACK: Final = 11
FIRST_FLEXIBLE: Final = 12
FIRST_TOPIC_ID: Final = 13
FIRST_REPLICA_STATE: Final = 15

_NO_ITEMS: Final = 1  # the length of an empty array in flexible versions, plus one
_LIMITS: Final = Struct(">iiib")
_SESSION: Final = Struct(">ii")
_REPLICA_STATE: Final = Struct(">iq")


class FetchPartition(NamedTuple):
    """What to fetch from one partition. Epochs and `log_start_offset` are -1 when not known."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchTopic(NamedTuple):
    """Exactly one of `name` (to version 12) and `topic_id` (from version 13) is set."""

    name: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions to drop from an incremental fetch session (KIP-227)."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    """`replica_id` is -1 for a consumer; `session_epoch` -1 asks for no session, 0 for a new."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    topics: list[FetchTopic]
    session_id: int = 0
    session_epoch: int = -1
    forgotten: list[ForgottenTopic] = []  # noqa: RUF012
    rack_id: str = ""
    replica_id: int = -1
    replica_epoch: int = -1
    cluster_id: str | None = None


class _Layout(NamedTuple):
    """How one version writes a partition.

    Attributes:
        struct: all its fields; in flexible versions a byte at the end for "no tagged fields".
        fields: which of the six fields of `FetchPartition` this version has.
        complete: makes the six of what was read and a -1 behind it; None when all are there.
    """

    struct: Struct
    fields: tuple[int, ...]
    complete: Callable[[tuple[int, ...]], tuple[int, ...]] | None


def _layout(version: int) -> _Layout:
    since = {0: 4, 1: 9, 2: 4, 3: 12, 4: 5, 5: 4}
    fields = tuple(field for field in range(6) if version >= since[field])
    letters = "".join("iiqiqi"[field] for field in fields)
    return _Layout(
        Struct(">" + letters + ("x" if version >= FIRST_FLEXIBLE else "")),
        fields,
        itemgetter(*(fields.index(field) if field in fields else -1 for field in range(6)))
        if len(fields) < 6
        else None,
    )


_LAYOUTS: Final = {version: _layout(version) for version in range(4, 19)}

# Makes a NamedTuple in half the time its own constructor takes.
_new: Final = tuple.__new__


def read_fetch_request(version: int, frame: Frame, at: int) -> FetchRequest:
    """Return the body at `at`. Raises what `primitive.READ_ERRORS` names when it does not hold."""
    view = memoryview(frame)
    flexible = version >= FIRST_FLEXIBLE
    replica_id = replica_epoch = session_epoch = -1
    session_id = 0
    rack_id = ""
    cluster_id: str | None = None
    forgotten: list[ForgottenTopic] = []
    if version < FIRST_REPLICA_STATE:
        (replica_id,) = INT32.unpack_from(view, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(view, at)
    at += _LIMITS.size
    if version >= FIRST_SESSION:
        session_id, session_epoch = _SESSION.unpack_from(view, at)
        at += _SESSION.size
    topics, at = _read_topics(version, view, at)
    if version >= FIRST_SESSION:
        if flexible and view[at] == _NO_ITEMS:
            at += 1
        else:
            forgotten, at = _read_forgotten(version, view, at)
    if version >= FIRST_RACK:
        rack, at = read_string(view, at, flexible)
        if rack is None:
            raise Malformed("rack_id is null")
        rack_id = rack
    if flexible:
        tags, at = read_tags(view, at)
        if 0 in tags:
            cluster_id, _ = read_string(view, tags[0][0], True)
        if 1 in tags and version >= FIRST_REPLICA_STATE:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(view, tags[1][0])
    if at > len(view):
        raise Malformed(f"it ends at byte {at} and only {len(view)} are there")
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        topics,
        session_id,
        session_epoch,
        forgotten,
        rack_id,
        replica_id,
        replica_epoch,
        cluster_id,
    )


def _read_topics(version: int, view: memoryview, at: int) -> tuple[list[FetchTopic], int]:
    flexible = version >= FIRST_FLEXIBLE
    topic_count, at = read_count(view, at, flexible, 3)
    _check_items("topics", topic_count, REQUEST_MAX_ITEMS)
    items_left = REQUEST_MAX_ITEMS
    layout = _LAYOUTS[version]
    topics = []
    for _ in range(topic_count):
        name, topic_id, at = read_topic(view, at, version >= FIRST_TOPIC_ID, flexible)
        count, at = read_count(view, at, flexible, layout.struct.size)
        _check_items("partitions", count, items_left)
        items_left -= count
        if flexible:
            partitions, at = _read_flexible_partitions(layout, view, at, count)
            _, at = read_tags(view, at)
        else:
            end = at + count * layout.struct.size
            partitions = _partitions(layout, view[at:end])
            at = end
        topics.append(FetchTopic(name, topic_id, partitions))
    return topics, at


def _read_flexible_partitions(
    layout: _Layout, view: memoryview, at: int, count: int
) -> tuple[list[FetchPartition], int]:
    """Read all in one go when no partition has tagged fields, which only followers send."""
    size = layout.struct.size
    end = at + count * size
    if bytes(view[at + size - 1 : end : size]).count(0) == count:
        return _partitions(layout, view[at:end]), end
    tagged = []
    for _ in range(count):
        tagged.append(_new(FetchPartition, layout.struct.unpack_from(view, at)))
        _, at = read_tags(view, at + size - 1)
    return tagged, at


def _partitions(layout: _Layout, rows: memoryview) -> list[FetchPartition]:
    complete = layout.complete
    if complete is None:
        return [_new(FetchPartition, row) for row in layout.struct.iter_unpack(rows)]
    return [_new(FetchPartition, complete((*row, -1))) for row in layout.struct.iter_unpack(rows)]


def _read_forgotten(version: int, view: memoryview, at: int) -> tuple[list[ForgottenTopic], int]:
    flexible = version >= FIRST_FLEXIBLE
    topic_count, at = read_count(view, at, flexible, 3)
    _check_items("forgotten topics", topic_count, REQUEST_MAX_ITEMS)
    items_left = REQUEST_MAX_ITEMS
    forgotten = []
    for _ in range(topic_count):
        name, topic_id, at = read_topic(view, at, version >= FIRST_TOPIC_ID, flexible)
        count, at = read_count(view, at, flexible, 4)
        _check_items("forgotten partitions", count, items_left)
        items_left -= count
        partitions = Struct(f">{count}i").unpack_from(view, at)
        at += 4 * count
        if flexible:
            _, at = read_tags(view, at)
        forgotten.append(ForgottenTopic(name, topic_id, partitions))
    return forgotten, at


def _check_items(what: str, count: int, items_left: int) -> None:
    if not 0 <= count <= items_left:
        raise Malformed(f"{count} {what} are not what a fetch asks for")


def pack_fetch_request(
    version: int, correlation_id: int, client_id: str | None, request: FetchRequest
) -> bytes:
    """Return a request with its size in front. Fields that `version` lacks are left out."""
    flexible = version >= FIRST_FLEXIBLE
    by_id = version >= FIRST_TOPIC_ID
    end = NOTHING if flexible else b""
    out = bytearray(4)
    out += request_head(ApiKey.FETCH, version, correlation_id, client_id)
    if version < FIRST_REPLICA_STATE:
        out += INT32.pack(request.replica_id)
    out += _LIMITS.pack(*request[:4])
    if version >= FIRST_SESSION:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    layout = _LAYOUTS[version]
    out += pack_count(len(request.topics), flexible)
    for topic in request.topics:
        out += pack_topic(topic.name, topic.topic_id, by_id, flexible)
        out += pack_count(len(topic.partitions), flexible)
        for partition in topic.partitions:
            out += layout.struct.pack(*[partition[field] for field in layout.fields])
        out += end
    if version >= FIRST_SESSION:
        out += pack_count(len(request.forgotten), flexible)
        for gone in request.forgotten:
            out += pack_topic(gone.name, gone.topic_id, by_id, flexible)
            out += pack_count(len(gone.partitions), flexible)
            out += Struct(f">{len(gone.partitions)}i").pack(*gone.partitions)
            out += end
    if version >= FIRST_RACK:
        out += pack_string(request.rack_id, flexible)
    if flexible:
        out += _pack_tags(version, request)
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _pack_tags(version: int, request: FetchRequest) -> bytes:
    tags = []
    if request.cluster_id is not None:
        cluster_id = pack_string(request.cluster_id, True)
        tags.append(b"\x00" + pack_uvarint(len(cluster_id)) + cluster_id)
    if version >= FIRST_REPLICA_STATE and (request.replica_id, request.replica_epoch) != (-1, -1):
        state = _REPLICA_STATE.pack(request.replica_id, request.replica_epoch) + NOTHING
        tags.append(b"\x01" + pack_uvarint(len(state)) + state)
    return pack_uvarint(len(tags)) + b"".join(tags)
