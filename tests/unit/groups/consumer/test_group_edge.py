"""Where a KIP-848 group's rules end: lost appends, deadlines, reloads, and work that is spared."""

from typing import Any
from uuid import UUID

import pytest

from headrace.groups.config import GroupConfig
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.error import GroupError, Refusal
from headrace.groups.offset.message import DeleteGroupRequest
from headrace.groups.record import PartitionMetadataRecord
from headrace.groups.record_codec import decode, encode
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicImage
from testkit.simulation.group_member import commit, consumer_beat
from testkit.simulation.group_shard import GroupShard, LoggedRecord

CLICKS = UUID(int=1)
SESSION_MS = 45_000
REBALANCE_MS = 60_000


def image(version: int = 1, clicks: int = 4, **more: int) -> TopicImage:
    topics = [GroupTopic("clicks", CLICKS, clicks)]
    topics += [GroupTopic(name, UUID(int=100 + len(name)), count) for name, count in more.items()]
    return TopicImage(version, tuple(topics))


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(GroupConfig(group_initial_rebalance_delay_ms=0), image())


def group(shard: GroupShard) -> ConsumerGroup:
    found = shard.group("g")
    assert isinstance(found, ConsumerGroup)
    return found


def clicks(*numbers: int) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(CLICKS, number) for number in numbers)


def last_records(shard: GroupShard) -> list[Any]:
    """Return what compaction leaves of the log."""
    last = {each.key: each for each in shard.log if isinstance(each, LoggedRecord)}
    return [decode(each.key, each.value) for each in last.values()]


# An append that fails.


def test_a_join_that_was_not_written_leaves_the_group_as_it_was(shard: GroupShard) -> None:
    consumer_beat(shard, "a")
    image = group(shard).image
    before = dict(image.target), dict(image.regexes), image.epoch

    shard.fail_appends = True
    consumer_beat(shard, "b", subscribed_topic_regex="c.*")
    shard.fail_appends = False

    after = group(shard).image
    assert (after.target, after.regexes, after.epoch) == before
    written = len(shard.log)
    for _ in range(3):
        shard.advance(SESSION_MS - 1)
        consumer_beat(shard, "a", epoch=1)
    assert len(shard.log) == written, "no session of the other member ends"


# Deadlines.


def revoking(shard: GroupShard, **changes: Any) -> frozenset[TopicIdPartition]:
    """Let a second member come, and the first hear that it must give up; return what it keeps."""
    consumer_beat(shard, "a", **changes)
    consumer_beat(shard, "b")
    kept = consumer_beat(shard, "a", epoch=1).assignment
    assert isinstance(kept, frozenset)
    return kept


def beat_for(shard: GroupShard, duration_ms: int, **epochs: int) -> None:
    for _ in range(duration_ms // 5_000):
        shard.advance(5_000)
        for member_id, epoch in epochs.items():
            consumer_beat(shard, member_id, epoch=epoch)


def test_a_revocation_has_its_whole_time_after_a_reload(shard: GroupShard) -> None:
    revoking(shard)
    beat_for(shard, REBALANCE_MS - 5_000, a=1, b=2)
    shard = shard.reopened()

    beat_for(shard, REBALANCE_MS - 5_000, a=1, b=2)
    assert sorted(group(shard).members) == ["a", "b"]
    beat_for(shard, 5_000, b=2)
    assert sorted(group(shard).members) == ["b"]


def test_a_member_with_nothing_to_give_up_has_no_such_deadline_after_a_reload(
    shard: GroupShard,
) -> None:
    consumer_beat(shard, "a")
    shard = shard.reopened()

    beat_for(shard, 2 * REBALANCE_MS, a=1)

    assert sorted(group(shard).members) == ["a"]


def test_a_member_that_gave_up_in_time_stays(shard: GroupShard) -> None:
    kept = revoking(shard)
    assert consumer_beat(shard, "a", epoch=1, owned=kept).member_epoch == 2

    beat_for(shard, 2 * REBALANCE_MS, a=2, b=2)

    assert sorted(group(shard).members) == ["a", "b"]


def test_a_static_member_that_is_away_has_a_session_to_come_back(shard: GroupShard) -> None:
    """It holds nothing while it is away, so there is nothing that it must give up in time."""
    revoking(shard, instance_id="i", rebalance_timeout_ms=1_000)
    consumer_beat(shard, "a", epoch=-2, instance_id="i")

    shard.advance(1_000)

    assert "a" in group(shard).members


# Epochs.


def test_a_member_may_join_again_from_any_epoch(shard: GroupShard) -> None:
    consumer_beat(shard, "a")
    for epoch in (1, 2):
        consumer_beat(shard, "a", epoch=epoch, subscribed_topic_names=("clicks", f"t{epoch}"))

    again = consumer_beat(shard, "a", subscribed_topic_names=("clicks", "t2"))

    assert (again.error, again.member_epoch) == (None, 3)


def test_a_lost_reply_that_changed_nothing_is_given_again(shard: GroupShard) -> None:
    consumer_beat(shard, "a")
    consumer_beat(shard, "a", epoch=1, subscribed_topic_names=("clicks", "other"))

    again = consumer_beat(shard, "a", epoch=1, owned=clicks(0, 1, 2, 3))

    assert (again.error, again.member_epoch) == (None, 2)


def test_an_error_names_the_member(shard: GroupShard) -> None:
    assert consumer_beat(shard, "a", epoch=1).member_id == "a"


@pytest.mark.parametrize(("timeout_ms", "error"), [(0, GroupError.INVALID_REQUEST), (1, None)])
def test_a_rebalance_takes_at_least_a_moment(
    shard: GroupShard, timeout_ms: int, error: GroupError | None
) -> None:
    assert consumer_beat(shard, "a", rebalance_timeout_ms=timeout_ms).error is error


# Commits and fetches.


@pytest.mark.parametrize(("epoch", "error"), [(-1, None), (0, GroupError.UNKNOWN_MEMBER_ID)])
def test_a_group_without_members_takes_commits_of_a_client_without_membership(
    shard: GroupShard, epoch: int, error: GroupError | None
) -> None:
    consumer_beat(shard, "a")
    consumer_beat(shard, "a", epoch=-1)

    assert commit(shard, generation=epoch, knows_epochs=True).error is error


def test_a_group_with_members_takes_commits_of_members_alone(shard: GroupShard) -> None:
    consumer_beat(shard, "a")

    assert commit(shard, generation=-1).error is GroupError.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, None),
        (None, 0, GroupError.UNKNOWN_MEMBER_ID),
        ("a", 1, None),
        ("a", -1, GroupError.STALE_MEMBER_EPOCH),
    ],
)
def test_who_may_fetch_offsets(
    shard: GroupShard, member_id: str | None, epoch: int, error: GroupError | None
) -> None:
    consumer_beat(shard, "a")
    found = None
    try:
        group(shard).check_fetch(member_id, epoch)
    except Refusal as refusal:
        found = refusal.error
    assert found is error


# Leaving.


def test_leaving_needs_a_member_and_its_own_instance(shard: GroupShard) -> None:
    consumer_beat(shard, "a", instance_id="i")
    consumer_beat(shard, "b")

    stranger = consumer_beat(shard, "x", epoch=-1)
    fenced = consumer_beat(shard, "b", epoch=-1, instance_id="i")

    assert stranger.error is GroupError.UNKNOWN_MEMBER_ID
    assert fenced.error is GroupError.FENCED_INSTANCE_ID
    assert sorted(group(shard).members) == ["a", "b"]


def test_an_expression_goes_with_its_last_reader(shard: GroupShard) -> None:
    consumer_beat(shard, "a", subscribed_topic_regex="c.*")
    consumer_beat(shard, "b")
    assert list(group(shard).image.regexes) == ["c.*"]

    consumer_beat(shard, "a", epoch=-1)

    assert group(shard).image.regexes == {}


def test_nothing_of_a_deleted_group_stays_in_the_log(shard: GroupShard) -> None:
    consumer_beat(shard, "a", subscribed_topic_regex="c.*")
    shard.log.append(
        LoggedRecord(*encode(PartitionMetadataRecord(group="g", value=b"\0\0\1\0")), None)
    )
    shard = shard.reopened()
    consumer_beat(shard, "a", epoch=-2 + 1)

    assert shard.ask(DeleteGroupRequest(group_id="g")).error is None

    assert [each for each in last_records(shard) if each.value is not None] == []


def test_everything_of_a_deleted_group_goes_even_what_no_member_uses(shard: GroupShard) -> None:
    """Another coordinator may have left an expression, and metadata of Kafka before 4.1."""
    consumer_beat(shard, "a", subscribed_topic_regex="c.*")
    (regex,) = [each for each in last_records(shard) if type(each).__name__ == "RegexRecord"]
    consumer_beat(shard, "a", epoch=-1)
    for record in (regex, PartitionMetadataRecord(group="g", value=b"\0\0\1\0")):
        shard.log.append(LoggedRecord(*encode(record), None))
    shard = shard.reopened()

    shard.ask(DeleteGroupRequest(group_id="g"))

    assert [each for each in last_records(shard) if each.value is not None] == []


def test_a_new_group_deletes_nothing(shard: GroupShard) -> None:
    consumer_beat(shard, "a")
    assert all(each.value is not None for each in last_records(shard))


# On the way to another subscription.


def test_topics_given_up_on_the_way_are_taken_at_once(shard: GroupShard) -> None:
    """The member still owns what it should give up, so it is not at its target yet."""
    revoking(shard)

    reply = consumer_beat(
        shard, "a", epoch=1, owned=clicks(0, 1, 2, 3), subscribed_topic_names=("other",)
    )

    assert reply.assignment == frozenset()


# Work that is spared.


def test_a_heartbeat_without_news_looks_at_nothing(
    shard: GroupShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups have thousands of members that say nothing new every few seconds."""
    consumer_beat(shard, "a")
    shard.topics.image = image(2, other=1)
    assert consumer_beat(shard, "a", epoch=1).error is None

    monkeypatch.setattr("headrace.groups.consumer.group.reconcile", None)
    monkeypatch.setattr("headrace.groups.consumer.group_image.ConsumerGroupImage.topic_hash", None)

    assert consumer_beat(shard, "a", epoch=1).error is None


def test_a_change_of_another_topic_moves_no_member(
    shard: GroupShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer_beat(shard, "a")
    monkeypatch.setattr("headrace.groups.consumer.group.reconcile", None)
    shard.topics.image = image(2, other=1)

    assert consumer_beat(shard, "a", epoch=1).error is None


def test_a_topic_that_grows_is_seen_though_no_name_has_changed(
    shard: GroupShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer_beat(shard, "a")
    names = shard.topics.names()
    monkeypatch.setattr(shard.topics, "names", lambda: names)

    shard.topics.image = image(2, clicks=5)

    assert consumer_beat(shard, "a", epoch=1).assignment == clicks(0, 1, 2, 3, 4)
