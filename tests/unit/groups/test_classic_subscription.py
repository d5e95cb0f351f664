import pytest

from headrace.groups.classic_subscription import (
    ConsumerAssignment,
    ConsumerSubscription,
    read_assignment,
    read_subscription,
    subscribed_topics,
    subscription_version,
    write_assignment,
)
from headrace.model.ids import TopicPartition


def test_topics_of_every_version_are_read() -> None:
    topics = b"\0\0\0\2\0\1a\0\1b"

    for version in (b"\0\0", b"\0\1", b"\0\3", b"\0\x09"):
        assert subscribed_topics(version + topics + b"\xff\xff\xff\xff") == {"a", "b"}


def test_foreign_bytes_are_no_subscription() -> None:
    assert subscribed_topics(b"") is None
    assert subscribed_topics(b"\xff\xff") is None
    assert subscribed_topics(b"\xff\xff\0\0\0\0") is None, "there is no version -1"
    assert subscribed_topics(b"\0\0\x7f\xff\xff\xff") is None
    assert subscribed_topics(b"\0\0\0\0\0\1\0\2\xff\xff") is None


def test_an_assignment_is_read_as_it_was_written() -> None:
    partitions = frozenset({TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 1)})

    assert read_assignment(write_assignment(2, partitions)) == ConsumerAssignment(
        partitions=partitions
    )
    assert read_assignment(b"") == ConsumerAssignment()
    assert write_assignment(9, ())[:2] == b"\0\3", "a version that we do not know"


def test_an_assignment_may_hold_the_leaders_own_data() -> None:
    blob = write_assignment(0, [TopicPartition("a", 0)])[:-4] + b"\0\0\0\2xy"
    assignment = read_assignment(blob)
    assert assignment is not None
    assert assignment.user_data == b"xy"


@pytest.mark.parametrize("blob", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1\0\1a\0\0\0\1\0\0"])
def test_foreign_bytes_are_no_assignment(blob: bytes) -> None:
    assert read_assignment(blob) is None


# Written by Kafka's Java client: version, topics, user data, owned partitions, generation, rack.
TOPICS = b"\0\0\0\1\0\1a" + b"\0\0\0\1x"
OWNED = b"\0\0\0\1\0\1a\0\0\0\2\0\0\0\0\0\0\0\5"


@pytest.mark.parametrize(
    ("blob", "owned", "rack_id"),
    [
        (b"\0\0" + TOPICS, (), None),
        (b"\0\1" + TOPICS + OWNED, (0, 5), None),
        (b"\0\2" + TOPICS + OWNED + b"\0\0\0\7", (0, 5), None),
        (b"\0\3" + TOPICS + OWNED + b"\0\0\0\7\0\2r1", (0, 5), "r1"),
        (b"\0\3" + TOPICS, (), None),
        (b"\0\1" + TOPICS + OWNED + b"\0\2r1", (0, 5), None),
        (b"\0\3" + TOPICS + OWNED + b"\0\0\0\7\xff\xff", (0, 5), None),
        (b"\0\4" + TOPICS + OWNED + b"\0\0\0\7\0\2r1" + b"more", (0, 5), "r1"),
    ],
)
def test_a_subscription_of_every_version_is_read(
    blob: bytes, owned: tuple[int, ...], rack_id: str | None
) -> None:
    assert read_subscription(blob) == ConsumerSubscription(
        version=blob[1],
        topics=frozenset({"a"}),
        owned=frozenset(TopicPartition("a", number) for number in owned),
        rack_id=rack_id,
    )


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xff\xff" + TOPICS,
        b"\0\0\0\0\0\1",
        b"\0\1" + TOPICS + b"\0\0",
        b"\0\2" + TOPICS + OWNED + b"\0\0",
    ],
)
def test_foreign_bytes_are_no_whole_subscription(blob: bytes) -> None:
    assert read_subscription(blob) is None


def test_a_member_is_answered_in_the_version_of_its_subscription() -> None:
    assert subscription_version(b"\0\2" + TOPICS) == 2
    assert subscription_version(b"\0") == 0, "which every consumer reads"
