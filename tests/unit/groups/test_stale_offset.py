"""Offsets of topics that may be gone: refused while that is unknown, deleted when it is certain."""

from uuid import UUID

import pytest

from headrace.groups.error import GroupError, Refusal
from headrace.groups.offset.message import OffsetToCommit
from headrace.groups.topic import GroupTopic, TopicImage
from headrace.model.ids import TopicPartition
from testkit.simulation.group_member import CLICKS_0, VIEWS_0, commit, fetch
from testkit.simulation.group_shard import GroupShard

CLICKS, VIEWS = GroupTopic("clicks", UUID(int=1), 2), GroupTopic("views", UUID(int=2), 2)
CLICKS_1 = TopicPartition("clicks", 1)


def commit_with_id(shard: GroupShard, where: TopicPartition, topic_id: int) -> None:
    commit(shard, offsets={where: OffsetToCommit(offset=5, topic_id=UUID(int=topic_id))})


@pytest.fixture
def suspecting(shard: GroupShard) -> GroupShard:
    """One offset is of clicks, which the broker does not serve, and one of views."""
    commit_with_id(shard, CLICKS_0, 1)
    commit_with_id(shard, VIEWS_0, 2)
    shard.topics.image = TopicImage(2, (VIEWS,))
    assert shard.registry.suspect_topics() == {"clicks"}
    return shard


def test_an_offset_in_doubt_refuses_the_whole_request(suspecting: GroupShard) -> None:
    for partitions in ([CLICKS_0], [VIEWS_0, CLICKS_0], None):
        with pytest.raises(Refusal, match="clicks-0 may be that of a topic") as refusal:
            suspecting.registry.fetch_offsets("g", partitions)
        assert refusal.value.error is GroupError.COORDINATOR_LOAD_IN_PROGRESS


def test_what_is_not_in_doubt_is_answered(suspecting: GroupShard) -> None:
    assert fetch(suspecting, VIEWS_0).offset == 5
    assert fetch(suspecting, CLICKS_1).offset == -1


def test_a_topic_that_the_broker_serves_by_now_is_answered(suspecting: GroupShard) -> None:
    suspecting.topics.image = TopicImage(3, (CLICKS, VIEWS))

    assert fetch(suspecting).offset == 5
    assert suspecting.registry.suspects == {"clicks"}


def test_an_offset_of_a_topic_that_is_gone_is_deleted(suspecting: GroupShard) -> None:
    suspecting.run(suspecting.registry.forget_stale({"clicks": None}))

    assert suspecting.registry.suspects == frozenset()
    assert fetch(suspecting).offset == -1
    assert fetch(suspecting, VIEWS_0).offset == 5
    assert list(suspecting.reopened().registry.fetch_offsets("g", None)) == [VIEWS_0]


@pytest.mark.parametrize(("topic_id", "offset"), [(1, 5), (9, -1)])
def test_an_offset_of_a_topic_that_is_there_stays_if_it_is_the_same(
    suspecting: GroupShard, topic_id: int, offset: int
) -> None:
    suspecting.run(suspecting.registry.forget_stale({"clicks": UUID(int=topic_id)}))

    assert fetch(suspecting).offset == offset


def test_only_topics_in_question_are_looked_at(suspecting: GroupShard) -> None:
    suspecting.run(suspecting.registry.forget_stale({"views": None}))

    assert suspecting.registry.suspects == {"clicks"}
    assert fetch(suspecting, VIEWS_0).offset == 5


def test_what_could_not_be_deleted_stays_in_doubt(suspecting: GroupShard) -> None:
    suspecting.fail_appends = True

    suspecting.run(suspecting.registry.forget_stale({"clicks": None}))

    assert suspecting.registry.suspects == {"clicks"}


@pytest.mark.parametrize(("committed", "left"), [((1,), -1), ((0,), -1), ((7,), 5)])
def test_a_deleted_topic_takes_its_own_offsets_and_those_without_an_id(
    shard: GroupShard, committed: tuple[int, ...], left: int
) -> None:
    for topic_id in committed:
        commit_with_id(shard, CLICKS_0, topic_id)

    shard.run(shard.registry.forget_topics({"clicks": UUID(int=1)}))

    assert fetch(shard).offset == left
