"""The messages that members of a group exchange."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.serial import entity_reader

from headrace.client.group.consumer_protocol import (
    assign_range,
    pack_assignment,
    pack_subscription,
    read_assignment,
    read_subscription,
)
from headrace.model.error import PeerError
from headrace.model.ids import TopicPartition

names = st.text("abc.-_", min_size=1, max_size=8)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))


@given(st.sets(names, max_size=6))
def test_a_subscription_is_read_as_kafkas_schema_reads_it(topics: set[str]) -> None:
    packed = pack_subscription(topics)

    read, _ = entity_reader(ConsumerProtocolSubscription)(packed, 2)

    assert sorted(topics) == list(read.topics) == read_subscription(packed)


@given(st.sets(partitions, max_size=12))
def test_an_assignment_is_read_as_kafkas_schema_reads_it(wanted: set[TopicPartition]) -> None:
    packed = pack_assignment(wanted)

    read, _ = entity_reader(ConsumerProtocolAssignment)(packed, 2)

    found = [
        TopicPartition(topic.topic, index)
        for topic in read.assigned_partitions
        for index in topic.partitions
    ]
    assert sorted(wanted) == found == read_assignment(packed)


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_assignment, read_subscription):
        with suppress(PeerError):
            read(data)


def test_a_member_without_bytes_has_no_partitions() -> None:
    assert read_assignment(b"") == []


def test_range_gives_neighbours_to_one_member() -> None:
    shares = assign_range({"b": ["t", "u"], "a": ["t"]}, {"t": range(5), "u": [0]})
    assert {member: [str(each) for each in share] for member, share in shares.items()} == {
        "a": ["t-0", "t-1", "t-2"],
        "b": ["t-3", "t-4", "u-0"],
    }


@given(
    st.dictionaries(names, st.lists(names, max_size=3), min_size=1, max_size=5),
    st.dictionaries(names, st.integers(0, 9).map(range), max_size=4),
)
def test_range_gives_every_wanted_partition_to_exactly_one_member(
    members: dict[str, list[str]], topics: dict[str, range]
) -> None:
    shares = assign_range(members, topics)

    given_out = [each for share in shares.values() for each in share]
    wanted = {topic for each in members.values() for topic in each}
    assert sorted(given_out) == sorted(
        TopicPartition(topic, index) for topic in wanted for index in topics.get(topic, ())
    )
    for member, share in shares.items():
        assert {each.topic for each in share} <= set(members[member])


def test_a_topic_that_does_not_exist_gives_nothing() -> None:
    assert assign_range({"a": ["gone"]}, {}) == {"a": []}


@pytest.mark.parametrize("read", [read_assignment, read_subscription])
def test_a_count_that_no_bytes_follow_is_refused(read: object) -> None:
    assert callable(read)
    with pytest.raises(PeerError):
        read(b"\0\0\x7f\xff\xff\xff")
