from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from headrace.groups.config import GroupConfig
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.message import ConsumerHeartbeat, ConsumerHeartbeatReply
from headrace.groups.consumer.state import ConsumerState
from headrace.groups.error import GroupError
from headrace.groups.record import PartitionMetadataRecord
from headrace.groups.record_codec import decode, encode
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicImage
from testkit.simulation.group_shard import GroupShard, LoggedRecord

CLICKS = UUID(int=1)
VIEWS = UUID(int=2)
SESSION_MS = 45_000
REBALANCE_MS = 60_000


def image(version: int = 1, clicks: int = 4, views: int = 2, **more: int) -> TopicImage:
    topics = [GroupTopic("clicks", CLICKS, clicks), GroupTopic("views", VIEWS, views)]
    topics += [GroupTopic(name, UUID(int=100 + len(name)), count) for name, count in more.items()]
    return TopicImage(version, tuple(topics))


def clicks(*numbers: int) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(CLICKS, number) for number in numbers)


def views(*numbers: int) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(VIEWS, number) for number in numbers)


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(topics=image())


def beat(shard: GroupShard, member_id: str, epoch: int, **changes: Any) -> ConsumerHeartbeatReply:
    fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
    return shard.ask(ConsumerHeartbeat(**fields | changes))


def join(
    shard: GroupShard, member_id: str, topics: Iterable[str] = ("clicks",), **changes: Any
) -> ConsumerHeartbeatReply:
    fields: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": tuple(topics),
        "owned": frozenset(),
    }
    return beat(shard, member_id, 0, **fields | changes)


def state(shard: GroupShard) -> str:
    description = shard.registry.describe_consumer("g")
    assert description is not None
    return description.state


def error(reply: ConsumerHeartbeatReply) -> GroupError | None:
    return reply.error


# Joining.


def test_first_member_gets_everything(shard: GroupShard) -> None:
    reply = join(shard, "a")

    assert reply == ConsumerHeartbeatReply(
        member_id="a",
        member_epoch=1,
        heartbeat_interval_ms=5_000,
        assignment=clicks(0, 1, 2, 3),
    )
    assert state(shard) == ConsumerState.STABLE


def test_heartbeat_without_news_says_nothing_new(shard: GroupShard) -> None:
    join(shard, "a")
    written = len(shard.log)

    reply = beat(shard, "a", 1)

    assert (reply.member_epoch, reply.assignment) == (1, None)
    assert len(shard.log) == written


def test_full_heartbeat_gets_its_assignment_again(shard: GroupShard) -> None:
    join(shard, "a")

    reply = beat(
        shard,
        "a",
        1,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=("clicks",),
        owned=clicks(0, 1, 2, 3),
    )

    assert reply.assignment == clicks(0, 1, 2, 3)


def test_member_of_version_0_is_given_an_id(shard: GroupShard) -> None:
    reply = join(shard, "", can_get_member_id=True)

    assert reply.member_id == "id1"


def test_unknown_topic_is_not_assigned_until_it_exists(shard: GroupShard) -> None:
    before = join(shard, "a", ["orders"])

    shard.topics.image = image(version=2, orders=1)
    after = beat(shard, "a", 1)

    assert before.assignment == frozenset()
    assert after.assignment is not None
    assert len(after.assignment) == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rebalance_timeout_ms": -1}, GroupError.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, GroupError.INVALID_REQUEST),
        ({"owned": None}, GroupError.INVALID_REQUEST),
        ({"owned": clicks(0)}, GroupError.INVALID_REQUEST),
        ({"instance_id": ""}, GroupError.INVALID_REQUEST),
        ({"rack_id": ""}, GroupError.INVALID_REQUEST),
        ({"member_epoch": -3}, GroupError.INVALID_REQUEST),
        ({"member_epoch": -2}, GroupError.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, GroupError.UNSUPPORTED_ASSIGNOR),
        ({"group_id": ""}, GroupError.INVALID_GROUP_ID),
        ({"subscribed_topic_regex": "["}, GroupError.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_request_that_no_group_can_take(
    shard: GroupShard, changes: dict[str, Any], expected: GroupError
) -> None:
    reply = join(shard, "a", **changes)

    assert reply.error is expected
    assert reply.message
    assert shard.registry.group_ids() == []


def test_member_of_version_1_must_bring_its_id(shard: GroupShard) -> None:
    assert error(join(shard, "")) is GroupError.INVALID_REQUEST


def test_group_takes_no_more_than_its_maximum() -> None:
    shard = GroupShard(GroupConfig(group_consumer_max_size=1), image())
    join(shard, "a")

    assert error(join(shard, "b")) is GroupError.GROUP_MAX_SIZE_REACHED
    assert error(beat(shard, "a", 1)) is None


def test_a_groups_own_times_count_from_the_next_heartbeat() -> None:
    own: dict[str, dict[str, int]] = {}
    shard = GroupShard(GroupConfig(own=own), image())
    assert join(shard, "a").heartbeat_interval_ms == 5_000

    own["g"] = {"consumer.heartbeat.interval.ms": 7_000, "consumer.session.timeout.ms": 50_000}
    assert beat(shard, "a", 1).heartbeat_interval_ms == 7_000
    shard.advance(SESSION_MS + 1)
    assert state(shard) == "Stable"
    shard.advance(5_000)

    assert state(shard) == "Empty"


# Reconciliation between members.


def test_second_member_gets_its_share_only_after_the_first_gave_it_up(shard: GroupShard) -> None:
    join(shard, "a")

    newcomer = join(shard, "b")
    reply = beat(shard, "a", 1)
    meanwhile = beat(shard, "b", 2)
    done = beat(shard, "a", 1, owned=reply.assignment)
    got = beat(shard, "b", 2)

    assert (newcomer.member_epoch, newcomer.assignment) == (2, frozenset())
    assert reply.member_epoch == 1
    assert reply.assignment is not None
    assert len(reply.assignment) == 2
    assert meanwhile.assignment is None
    assert (done.member_epoch, done.assignment) == (2, None)
    assert got.assignment == clicks(0, 1, 2, 3) - reply.assignment
    assert state(shard) == ConsumerState.STABLE


def test_states_of_a_group_on_its_way(shard: GroupShard) -> None:
    join(shard, "a")
    join(shard, "b")
    reconciling = state(shard)
    beat(shard, "b", -1)
    assigning = state(shard)
    beat(shard, "a", -1)

    assert reconciling == ConsumerState.RECONCILING
    assert assigning == ConsumerState.ASSIGNING
    assert state(shard) == ConsumerState.EMPTY


def test_member_that_does_not_give_up_in_time_is_removed(shard: GroupShard) -> None:
    join(shard, "a", rebalance_timeout_ms=30_000)
    join(shard, "b")
    for _ in range(3):
        beat(shard, "a", 1)
        beat(shard, "b", 2)
        shard.advance(10_000)

    assert error(beat(shard, "a", 1)) is GroupError.UNKNOWN_MEMBER_ID
    assert beat(shard, "b", 2).assignment == clicks(0, 1, 2, 3)


def test_new_partitions_are_assigned(shard: GroupShard) -> None:
    join(shard, "a")

    shard.topics.image = image(version=2, clicks=6)
    reply = beat(shard, "a", 1)

    assert (reply.member_epoch, reply.assignment) == (2, clicks(0, 1, 2, 3, 4, 5))


def test_change_of_another_topic_changes_nothing(shard: GroupShard) -> None:
    join(shard, "a")

    shard.topics.image = image(version=2, views=9)

    assert beat(shard, "a", 1).member_epoch == 1


def test_deleted_topic_is_taken_away(shard: GroupShard) -> None:
    join(shard, "a", ["clicks", "views"])

    shard.topics.image = TopicImage(2, (GroupTopic("clicks", CLICKS, 4),))
    reply = beat(shard, "a", 1)

    assert reply.assignment == clicks(0, 1, 2, 3)


def test_change_of_subscription_moves_the_member(shard: GroupShard) -> None:
    join(shard, "a", ["clicks"])

    reply = beat(shard, "a", 1, subscribed_topic_names=("views",))
    done = beat(shard, "a", 1, owned=frozenset())

    assert reply.assignment == frozenset()
    assert (done.member_epoch, done.assignment) == (2, views(0, 1))


def test_most_wanted_assignor_is_used(shard: GroupShard) -> None:
    join(shard, "a", server_assignor="range")
    join(shard, "b", server_assignor="range")

    description = shard.registry.describe_consumer("g")

    assert description is not None
    assert description.assignor == "range"
    targets = {member.member_id: member.target_assignment for member in description.members}
    assert targets == {"a": clicks(0, 1), "b": clicks(2, 3)}


# Regular expressions.


def test_regex_subscribes_to_all_topics_that_match_entirely(shard: GroupShard) -> None:
    reply = join(shard, "a", subscribed_topic_names=None, subscribed_topic_regex="lick.|vi.*")

    assert reply.assignment == views(0, 1)


def test_regex_and_names_add_up(shard: GroupShard) -> None:
    reply = join(shard, "a", ["clicks"], subscribed_topic_regex="vi.*")

    assert reply.assignment == clicks(0, 1, 2, 3) | views(0, 1)


def test_topic_that_begins_to_match_is_assigned(shard: GroupShard) -> None:
    join(shard, "a", subscribed_topic_names=None, subscribed_topic_regex="v.*")

    shard.topics.image = image(version=2, visits=1)
    reply = beat(shard, "a", 1)

    assert reply.member_epoch == 2
    assert reply.assignment is not None
    assert len(reply.assignment) == 3


def test_empty_regex_ends_the_subscription(shard: GroupShard) -> None:
    join(shard, "a", ["clicks"], subscribed_topic_regex="vi.*")

    reply = beat(shard, "a", 1, subscribed_topic_regex="")

    assert reply.assignment == clicks(0, 1, 2, 3)
    group = shard.reopened().group("g")
    assert isinstance(group, ConsumerGroup)
    assert group.image.regexes == {}


# Epochs.


def test_epoch_ahead_of_the_coordinator_is_fenced(shard: GroupShard) -> None:
    join(shard, "a")

    assert error(beat(shard, "a", 2)) is GroupError.FENCED_MEMBER_EPOCH


def test_epoch_behind_is_fenced(shard: GroupShard) -> None:
    join(shard, "a")
    beat(shard, "a", 1, subscribed_topic_names=("clicks", "views"))
    beat(shard, "a", 2, subscribed_topic_names=("clicks",), owned=clicks(0, 1, 2, 3))

    assert error(beat(shard, "a", 1, owned=frozenset())) is GroupError.FENCED_MEMBER_EPOCH


def test_previous_epoch_is_taken_when_its_answer_was_lost(shard: GroupShard) -> None:
    join(shard, "a")
    beat(shard, "a", 1, subscribed_topic_names=("clicks", "views"))

    reply = beat(shard, "a", 1, owned=clicks(0, 1, 2, 3))
    unexplained = beat(shard, "a", 1)
    foreign = beat(shard, "a", 1, owned=clicks(7))

    assert (reply.error, reply.member_epoch) == (None, 2)
    assert unexplained.error is foreign.error is GroupError.FENCED_MEMBER_EPOCH


def test_fenced_member_joins_again_under_its_id(shard: GroupShard) -> None:
    join(shard, "a")
    beat(shard, "a", 9)

    reply = join(shard, "a")

    assert (reply.member_epoch, reply.assignment) == (1, clicks(0, 1, 2, 3))


def test_unknown_member_must_join(shard: GroupShard) -> None:
    nowhere = beat(shard, "a", 3)
    join(shard, "a")
    stranger = beat(shard, "b", 1)

    assert nowhere.error is stranger.error is GroupError.UNKNOWN_MEMBER_ID


# Leaving and timing out.


def test_member_that_leaves_frees_its_partitions(shard: GroupShard) -> None:
    join(shard, "a")
    join(shard, "b")

    left = beat(shard, "a", -1)
    reply = beat(shard, "b", 2)

    assert (left.error, left.member_epoch) == (None, -1)
    assert (reply.member_epoch, reply.assignment) == (3, clicks(0, 1, 2, 3))


def test_silent_member_is_removed_after_the_session(shard: GroupShard) -> None:
    join(shard, "a")
    shard.advance(SESSION_MS - 1)
    alive = beat(shard, "a", 1)

    shard.advance(SESSION_MS)

    assert alive.error is None
    assert error(beat(shard, "a", 1)) is GroupError.UNKNOWN_MEMBER_ID


# Static members.


def test_static_member_that_returns_takes_its_partitions_over(shard: GroupShard) -> None:
    join(shard, "a", instance_id="i")
    left = beat(shard, "a", -2, instance_id="i")

    reply = join(shard, "b", instance_id="i")

    assert left.member_epoch == -2
    assert (reply.member_epoch, reply.assignment) == (1, clicks(0, 1, 2, 3))
    assert error(beat(shard, "a", 1, instance_id="i")) is GroupError.FENCED_INSTANCE_ID


def test_instance_that_is_still_there_cannot_be_taken(shard: GroupShard) -> None:
    join(shard, "a", instance_id="i")

    assert error(join(shard, "b", instance_id="i")) is GroupError.UNRELEASED_INSTANCE_ID


def test_static_member_that_stays_away_is_removed_after_a_session(shard: GroupShard) -> None:
    join(shard, "a", instance_id="i")
    beat(shard, "a", -2, instance_id="i")

    shard.advance(SESSION_MS)

    assert state(shard) == ConsumerState.EMPTY


def test_partitions_of_an_absent_static_member_stay_its_own(shard: GroupShard) -> None:
    join(shard, "a", instance_id="i")
    beat(shard, "a", -2, instance_id="i")

    other = join(shard, "b")
    back = join(shard, "c", instance_id="i")

    assert other.assignment == frozenset()
    assert back.assignment is not None
    assert len(back.assignment) == 2


def test_unknown_instance_cannot_leave(shard: GroupShard) -> None:
    join(shard, "a")

    assert error(beat(shard, "a", -2, instance_id="i")) is GroupError.UNKNOWN_MEMBER_ID


# Durability.


def test_group_comes_back_from_its_records(shard: GroupShard) -> None:
    join(shard, "a", subscribed_topic_regex="vi.*")
    join(shard, "b", instance_id="i")
    beat(shard, "a", 1)

    after = shard.reopened()

    assert after.registry.describe_consumer("g") == shard.registry.describe_consumer("g")
    assert beat(after, "a", 1) == beat(shard, "a", 1)


def test_revocation_goes_on_after_a_restart(shard: GroupShard) -> None:
    join(shard, "a")
    join(shard, "b")
    reply = beat(shard, "a", 1)

    after = shard.reopened()
    done = beat(after, "a", 1, owned=reply.assignment)

    assert done.member_epoch == 2


def test_join_that_cannot_be_written_leaves_no_trace(shard: GroupShard) -> None:
    shard.fail_appends = True

    refused = join(shard, "a")

    assert refused.error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert shard.registry.group_ids() == []


def test_leaving_that_cannot_be_written_leaves_the_member(shard: GroupShard) -> None:
    join(shard, "a")

    shard.fail_appends = True
    refused = beat(shard, "a", -1)

    assert refused.error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert error(beat(shard, "a", 1)) is None


def test_metadata_of_older_kafkas_is_deleted_with_the_next_epoch(shard: GroupShard) -> None:
    join(shard, "a")
    key, value = encode(PartitionMetadataRecord(group="g", value=b"\0\0\1\0"))
    shard.log.append(LoggedRecord(key, value, None))

    after = shard.reopened()
    join(after, "b")

    last = [entry for entry in after.log if isinstance(entry, LoggedRecord) and entry.key == key]
    assert decode(last[-1].key, last[-1].value) == PartitionMetadataRecord(group="g", value=None)
