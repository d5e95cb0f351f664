"""The records of one event of a group as batches of `__consumer_offsets`, and how large they get.

Rule 1: all records of an event are one batch, so that they are read again all or none; except for
rules 3 and 5.
Rule 2: what a request asks to keep is refused above the topic's max.message.bytes, as in Kafka. A
group's record holds what all its members have sent, and a request of a few hundred bytes may write
it again.
Rule 3: records that only delete are never refused, or what is too large could not be deleted any
more. Each stands for itself, so they are cut into batches of that size, appended together.
Rule 4: what a timer has decided is never refused: no client waits, and it would be tried for ever.
A timer writes only what earlier requests, each within the limit, brought in. Nor is a member
refused that leaves.
Rule 5: what the broker derives from a request, matches of regular expressions and assignments, does
not count: it grows with the topics, and members could do nothing about it. Above that size a
heartbeat's records are cut into several batches, where a crash does no harm (`record_cut`).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from headrace.groups.consumer.record_cut import cut
from headrace.groups.effect import GroupEffects
from headrace.groups.record import (
    GroupMetadataRecord,
    GroupRecord,
    MemberMetadataRecord,
    OffsetCommitRecord,
)
from headrace.groups.record_codec import encode
from headrace.model.error import BatchTooLarge
from headrace.records.record import build_batch

# What a batch, and each record in it, takes beside keys and values, at most.
_BATCH_OVERHEAD = 61
_RECORD_OVERHEAD = 25

# What requests say themselves; everything else is derived.
_ASKED = (GroupMetadataRecord, MemberMetadataRecord, OffsetCommitRecord)

_Encoded = tuple[bytes, bytes | None]


def build_group_batches(effects: GroupEffects, wall_ms: int, max_bytes: int) -> bytes:
    """Return the batches to append, one behind the other.

    Raises:
        MalformedRecord: a text is longer than a record can hold.
        BatchTooLarge: a request asks to keep more than `max_bytes` at once (rule 2).
    """
    build = partial(build_batch, timestamp_ms=wall_ms)
    if effects.producer is not None:
        build = partial(
            build,
            producer_id=effects.producer.producer_id,
            producer_epoch=effects.producer.epoch,
            transactional=True,
        )
    if all(record.value is None for record in effects.records):
        return b"".join(build(piece) for piece in _pieces(effects.records, max_bytes))
    if not effects.requested:
        return build(_all(effects.records))
    batch = build(_encoded(effects.records, max_bytes))
    if len(batch) <= max_bytes:
        return batch
    if all(isinstance(record, _ASKED) for record in effects.records):
        raise _too_large(max_bytes)
    matches, whole, targets, end = cut(effects.records)
    pieces = chain(
        _pieces(matches, max_bytes), [_all(whole)], _pieces(targets, max_bytes), [_all(end)]
    )
    return b"".join(build(piece) for piece in pieces if piece)


def _encoded(records: Sequence[GroupRecord], max_bytes: int) -> list[_Encoded]:
    """Encode records as long as what is asked for may fit: each repeats the group's id, which may
    be long."""
    encoded: list[_Encoded] = []
    size = 0
    for record in records:
        key, value = encode(record)
        if isinstance(record, _ASKED):
            size += len(key) + len(value or b"")
        if size > max_bytes:
            raise _too_large(max_bytes)
        encoded.append((key, value))
    return encoded


def _all(records: Sequence[GroupRecord]) -> list[_Encoded]:
    return [encode(record) for record in records]


def _pieces(records: Sequence[GroupRecord], max_bytes: int) -> Iterator[list[_Encoded]]:
    piece: list[_Encoded] = []
    size = _BATCH_OVERHEAD
    for record in records:
        key, value = encode(record)
        record_size = _RECORD_OVERHEAD + len(key) + len(value or b"")
        if piece and size + record_size > max_bytes:
            yield piece
            piece, size = [], _BATCH_OVERHEAD
        piece.append((key, value))
        size += record_size
    yield piece


def _too_large(max_bytes: int) -> BatchTooLarge:
    return BatchTooLarge(
        "a request would write more to __consumer_offsets than its max.message.bytes "
        f"({max_bytes}): raise it, or commit fewer offsets per request"
    )
