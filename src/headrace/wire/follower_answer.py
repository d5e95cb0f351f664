"""The response to a follower in step: records of one partition and nothing else.

It is a Fetch response of version 13 and later (`fetch_response`), with fixed numbers in every other
field: packed and read by one `struct` call.
"""

from struct import Struct
from typing import Final, NamedTuple

from headrace.wire.primitive import INT32, READ_ERRORS, pack_uvarint, read_count

# The correlation id, no tags, throttle time, error, session; one topic and one partition, their
# lengths sent plus one; no aborted transactions, no preferred replica.
_ONE: Final = Struct(">iBihiB16sBihqqqBi")
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic and the answer

_new: Final = tuple.__new__


class FollowerAnswer(NamedTuple):
    """One partition's next records; `topic_id` as its bytes."""

    correlation_id: int
    session_id: int
    topic_id: bytes
    partition: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes | memoryview


def pack_follower_answer(answer: FollowerAnswer) -> bytes:
    """Return a whole response with its size in front."""
    number, session_id, topic_id, partition, high_watermark, last_stable, start, records = answer
    size = pack_uvarint(len(records) + 1)
    head = _ONE.pack(
        number,
        0,
        0,
        0,
        session_id,
        2,
        topic_id,
        2,
        partition,
        0,
        high_watermark,
        last_stable,
        start,
        0,
        -1,
    )
    length = INT32.pack(len(head) + len(size) + len(records) + len(_NO_TAGS))
    return b"".join((length, head, size, records, _NO_TAGS))


def read_follower_answer(frame: memoryview) -> FollowerAnswer | None:
    """Read a frame without its size; return None when it is any other response."""
    if len(frame) <= _ONE.size or bytes(frame[-len(_NO_TAGS) :]) != _NO_TAGS:
        return None
    (
        number,
        tags,
        throttle_ms,
        error,
        session_id,
        topics,
        topic_id,
        partitions,
        partition,
        code,
        high_watermark,
        last_stable,
        log_start,
        aborted,
        preferred,
    ) = _ONE.unpack_from(frame)
    fixed = (tags, throttle_ms, error, topics, partitions, code, aborted, preferred)
    if fixed != (0, 0, 0, 2, 2, 0, 0, -1):
        return None
    try:
        size, at = read_count(frame, _ONE.size, True, 1)
    except READ_ERRORS:
        return None
    if size <= 0 or at + size + len(_NO_TAGS) != len(frame):
        return None
    numbers = (number, session_id, topic_id, partition, high_watermark, last_stable, log_start)
    return _new(FollowerAnswer, (*numbers, frame[at : at + size]))
