"""The bytes inside JoinGroup and SyncGroup of the classic protocol (Kafka's ConsumerProtocol
schemas); not the consumer protocol of KIP-848.

They belong to the clients: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`,
versions 0 to 3, of which later ones only append fields. A coordinator reads the topics, on which
the expiry and the deletion of offsets depend. The rest it reads and writes only while a group is on
its way between the two protocols (KIP-848).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from headrace.groups.primitive_codec import MalformedRecord, RecordReader, RecordWriter
from headrace.model.ids import TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"

_FIRST_OWNED = 1
_FIRST_GENERATION = 2
_FIRST_RACK = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSubscription:
    """What a member says when it joins. `owned` is empty for one that gives up all beforehand."""

    version: int
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAssignment:
    """What a member gets when it syncs; `user_data` is the leader's own, for its assignor."""

    partitions: frozenset[TopicPartition] = frozenset()
    user_data: bytes = b""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics named in `metadata`, or None when these are not a consumer's bytes.

    It reads no further than it must, unlike `read_subscription`: a client whose later fields cannot
    be read keeps its offsets all the same.
    """
    reader = RecordReader(metadata)
    try:
        if reader.int16() < 0:
            return None
        return frozenset(reader.array(reader.string))
    except MalformedRecord:
        return None


def read_subscription(blob: bytes) -> ConsumerSubscription | None:
    """Return what a member says, or None when these are not a consumer's bytes."""
    reader = RecordReader(blob)
    try:
        version = reader.int16()
        if version < 0:
            return None
        topics = frozenset(reader.array(reader.string))
        reader.nullable_blob()
        owned: frozenset[TopicPartition] = frozenset()
        rack_id = None
        if version >= _FIRST_OWNED and reader.remaining:
            owned = _read_partitions(reader)
        if version >= _FIRST_GENERATION and reader.remaining:
            reader.int32()
        if version >= _FIRST_RACK and reader.remaining:
            rack_id = reader.nullable_string()
    except MalformedRecord:
        return None
    return ConsumerSubscription(version=version, topics=topics, owned=owned, rack_id=rack_id)


def subscription_version(blob: bytes) -> int:
    """Return the version in which a member is answered: that of its subscription.

    It is 0, which every consumer reads, when these are not a consumer's bytes.
    """
    subscription = read_subscription(blob)
    return 0 if subscription is None else subscription.version


def read_assignment(blob: bytes) -> ConsumerAssignment | None:
    """Return what a member was given, or None when these are not a consumer's bytes.

    A member that has joined and never synced has no bytes, and nothing.
    """
    if not blob:
        return ConsumerAssignment()
    reader = RecordReader(blob)
    try:
        if reader.int16() < 0:
            return None
        partitions = _read_partitions(reader)
        user_data = reader.nullable_blob() if reader.remaining else None
    except MalformedRecord:
        return None
    return ConsumerAssignment(partitions=partitions, user_data=user_data or b"")


def write_assignment(version: int, partitions: Iterable[TopicPartition]) -> bytes:
    """Return the bytes of an assignment, in the version that the member's subscription has."""
    writer = RecordWriter()
    writer.int16(min(version, _FIRST_RACK))
    topics = [
        (topic, list(found))
        for topic, found in groupby(sorted(partitions), lambda each: each.topic)
    ]
    writer.int32(len(topics))
    for topic, found in topics:
        writer.string(topic)
        writer.int32(len(found))
        for each in found:
            writer.int32(each.partition)
    writer.int32(-1)
    return bytes(writer)


def _read_partitions(reader: RecordReader) -> frozenset[TopicPartition]:
    def topic() -> list[TopicPartition]:
        name = reader.string()
        return [TopicPartition(name, number) for number in reader.array(reader.int32)]

    return frozenset(each for topics in reader.array(topic) for each in topics)
