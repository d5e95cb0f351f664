"""The messages that members of a classic consumer group exchange through their coordinator.

The coordinator passes these bytes on without reading them (ConsumerProtocolSubscription and
ConsumerProtocolAssignment).

    subscription: version int16, topics [string], user data nullable bytes, (1+) owned partitions
    assignment:   version int16, [topic string, partitions [int32]], user data nullable bytes

Later versions append fields, so this client writes version 0 and reads the start of any version.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from headrace.client.network.leader_call import by_topic
from headrace.model.error import PeerError
from headrace.model.ids import TopicPartition
from headrace.wire.primitive import (
    INT16,
    INT32,
    READ_ERRORS,
    pack_count,
    pack_string,
    read_count,
    read_string,
)

PROTOCOL_TYPE: Final = "consumer"
RANGE: Final = "range"

_VERSION_0 = INT16.pack(0)
_NO_USER_DATA = INT32.pack(-1)


def pack_subscription(topics: Iterable[str]) -> bytes:
    """Encode the topics that a member subscribes to."""
    names = [pack_string(name, False) for name in sorted(topics)]
    return b"".join((_VERSION_0, pack_count(len(names), False), *names, _NO_USER_DATA))


def read_subscription(data: bytes) -> list[str]:
    """Return the topics that a member subscribes to.

    Raises:
        PeerError: the bytes follow another protocol.
    """
    try:
        count, at = read_count(data, 2, False, 2)
        topics = []
        for _ in range(count):
            name, at = read_string(data, at, False)
            topics.append(name or "")
    except READ_ERRORS as error:
        raise PeerError(f"a member's subscription cannot be read: {error}") from error
    return topics


def pack_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the partitions that the group's leader assigns to a member."""
    topics = by_topic(sorted(partitions))
    parts = [_VERSION_0, pack_count(len(topics), False)]
    for topic, indexes in topics.items():
        parts.append(pack_string(topic, False))
        parts.append(Struct(f">i{len(indexes)}i").pack(len(indexes), *indexes))
    return b"".join((*parts, _NO_USER_DATA))


def read_assignment(data: bytes) -> list[TopicPartition]:
    """Return the partitions assigned to a member; none when there are no bytes.

    Raises:
        PeerError: the bytes follow another protocol.
    """
    assigned: list[TopicPartition] = []
    if not data:
        return assigned
    try:
        count, at = read_count(data, 2, False, 6)
        for _ in range(count):
            name, at = read_string(data, at, False)
            partitions, at = read_count(data, at, False, 4)
            indexes = Struct(f">{max(partitions, 0)}i").unpack_from(data, at)
            assigned += [TopicPartition(name or "", index) for index in indexes]
            at += 4 * max(partitions, 0)
    except READ_ERRORS as error:
        raise PeerError(f"a member's assignment cannot be read: {error}") from error
    return assigned


def assign_range(
    members: Mapping[str, Iterable[str]], partitions: Mapping[str, Iterable[int]]
) -> dict[str, list[TopicPartition]]:
    """Assign partitions as Kafka's range assignor does: per topic, consecutive ones to one member.

    Args:
        members: the topics that each member subscribes to.
        partitions: the partitions of each topic; a topic that does not exist has none.

    >>> shares = assign_range({"a": ["t"], "b": ["t"]}, {"t": range(3)})
    >>> [(member, [each.partition for each in share]) for member, share in shares.items()]
    [('a', [0, 1]), ('b', [2])]
    """
    shares: dict[str, list[TopicPartition]] = {member: [] for member in sorted(members)}
    subscriptions = {member: frozenset(topics) for member, topics in members.items()}
    for topic in sorted(frozenset[str]().union(*subscriptions.values())):
        subscribers = [member for member in shares if topic in subscriptions[member]]
        indexes = sorted(partitions.get(topic, ()))
        each, more = divmod(len(indexes), len(subscribers))
        first = 0
        for number, member in enumerate(subscribers):
            past = first + each + (number < more)
            shares[member] += [TopicPartition(topic, index) for index in indexes[first:past]]
            first = past
    return shares
