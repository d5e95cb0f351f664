"""A group with members passes from the classic to the consumer protocol, and back (KIP-848)."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic.state import ClassicState
from headrace.groups.classic_subscription import read_assignment, write_assignment
from headrace.groups.config import GroupConfig
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.description import GroupType
from headrace.groups.error import GroupError
from headrace.groups.offset.message import DeleteGroupRequest
from headrace.groups.record import MemberProtocol
from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicImage
from headrace.model.ids import TopicPartition
from testkit.simulation.classic_consumer import subscription_blob
from testkit.simulation.group_member import commit, consumer_beat, fetch
from testkit.simulation.group_shard import GroupShard

CLICKS = UUID(int=1)
P0, P1 = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def new_shard(**config: Any) -> GroupShard:
    settings = GroupConfig(group_initial_rebalance_delay_ms=0, **config)
    return GroupShard(settings, TopicImage(1, (GroupTopic("clicks", CLICKS, 2),)))


@pytest.fixture
def shard() -> GroupShard:
    return new_shard()


def join_request(member_id: str = "", **changes: Any) -> JoinRequest:
    owned = changes.pop("owned", ())
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "client_id": "c",
        "protocol_type": "consumer",
        "protocols": (MemberProtocol("range", subscription_blob(["clicks"], owned)),),
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "require_member_id": False,
    }
    return JoinRequest(**fields | changes)


def sync(shard: GroupShard, member_id: str, generation: int, **assignments: bytes) -> SyncReply:
    return shard.ask(
        SyncRequest(
            group_id="g", member_id=member_id, generation=generation, assignments=assignments
        )
    )


def beat(shard: GroupShard, member_id: str, generation: int) -> GroupError | None:
    request = HeartbeatRequest(group_id="g", member_id=member_id, generation=generation)
    error: GroupError | None = shard.ask(request).error
    return error


def stable_classic(shard: GroupShard, **changes: Any) -> str:
    """Make a classic group of one member at generation 1 that has both partitions."""
    token = shard.send(join_request(**changes))
    shard.advance(0)
    reply: JoinReply = shard.answer(token)
    assignments = {reply.member_id: write_assignment(1, [P0, P1])}
    request = SyncRequest(
        group_id="g", member_id=reply.member_id, generation=1, assignments=assignments
    )
    assert shard.ask(request).error is None
    return reply.member_id


def partitions(reply: SyncReply) -> frozenset[TopicPartition]:
    assert reply.error is None
    assignment = read_assignment(reply.assignment)
    assert assignment is not None
    return assignment.partitions


def kind(shard: GroupShard) -> GroupType:
    (group,) = shard.registry.list_groups()
    return group.type


# Upgrade.


def test_a_member_of_the_new_protocol_converts_the_group(shard: GroupShard) -> None:
    old = stable_classic(shard)
    commit(shard, member_id=old, generation=1)

    reply = consumer_beat(shard, "new")

    assert (reply.error, reply.member_epoch) == (None, 2)
    assert reply.assignment == frozenset(), "the old member has not given up anything yet"
    for each in (shard, shard.reopened()):
        assert kind(each) is GroupType.CONSUMER
        assert fetch(each).offset == 5
        described = each.registry.describe_consumer("g")
        assert described is not None
        held = {member.member_id: member.assignment for member in described.members}
        assert held[old] == {TopicIdPartition(CLICKS, 0), TopicIdPartition(CLICKS, 1)}
        types = {member.member_id: member.is_classic for member in described.members}
        assert types == {old: True, "new": False}


def test_an_eager_member_joins_again_and_gets_its_share(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")

    assert beat(shard, old, 1) is GroupError.REBALANCE_IN_PROGRESS
    joined = shard.ask(join_request(old))
    kept = partitions(sync(shard, old, joined.generation))
    reply = consumer_beat(shard, "new", epoch=2)

    assert (joined.generation, joined.leader) == (2, "")
    assert len(kept) == 1
    assert reply.assignment is not None
    assert len(reply.assignment) == 1
    assert beat(shard, old, 2) is None


def test_a_cooperative_member_gives_up_before_another_gets(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")

    joined = shard.ask(join_request(old, owned=[P0, P1]))
    kept = partitions(sync(shard, old, joined.generation))
    waiting = consumer_beat(shard, "new", epoch=2)
    again = shard.ask(join_request(old, owned=kept))
    reply = consumer_beat(shard, "new", epoch=2)

    assert joined.generation == 1, "its epoch moves when it has nothing left to give up"
    assert len(kept) == 1
    assert waiting.assignment is None
    assert again.generation == 2
    assert partitions(sync(shard, old, 2)) == kept
    assert reply.assignment is not None
    assert len(reply.assignment) == 1


def test_what_a_cooperative_member_still_owns_is_not_given_to_the_new_one(
    shard: GroupShard,
) -> None:
    """The leader has taken a partition from it, and it has not joined again without it."""
    token = shard.send(join_request(owned=[P0, P1]))
    shard.advance(0)
    old = shard.answer(token).member_id
    sync(shard, old, 1, **{old: write_assignment(1, [P0])})

    reply = consumer_beat(shard, "new")

    assert reply.assignment == frozenset()
    shard.ask(join_request(old, owned=[P0]))
    assert consumer_beat(shard, "new", epoch=2).assignment == {TopicIdPartition(CLICKS, 1)}


def test_parked_requests_are_answered(shard: GroupShard) -> None:
    old = stable_classic(shard)
    parked = shard.send(join_request())

    consumer_beat(shard, "new")

    assert shard.answer(parked).error is GroupError.REBALANCE_IN_PROGRESS
    assert beat(shard, old, 1) is GroupError.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_can_forbid_it(policy: str) -> None:
    shard = new_shard(group_consumer_migration_policy=policy)
    stable_classic(shard)

    assert consumer_beat(shard, "new").error is GroupError.GROUP_ID_NOT_FOUND
    assert kind(shard) is GroupType.CLASSIC


@pytest.mark.parametrize(
    ("assignor", "error"),
    [("stream", GroupError.GROUP_ID_NOT_FOUND), ("cooperative-sticky", None)],
)
def test_an_assignor_that_needs_data_of_its_own_keeps_the_group_classic(
    shard: GroupShard, assignor: str, error: GroupError | None
) -> None:
    """Kafka Streams: the broker could not give its members what their assignor needs."""
    protocols = (MemberProtocol(assignor, subscription_blob(["clicks"])),)
    token = shard.send(join_request(protocols=protocols))
    shard.advance(0)
    old = shard.answer(token).member_id
    blob = write_assignment(1, [P0])[:-4] + b"\0\0\0\1x"
    sync(shard, old, 1, **{old: blob})

    assert consumer_beat(shard, "new").error is error


def test_a_conversion_that_cannot_be_written_leaves_the_group_classic(shard: GroupShard) -> None:
    old = stable_classic(shard)
    shard.fail_appends = True
    refused = consumer_beat(shard, "new")
    shard.fail_appends = False

    assert refused.error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert beat(shard, old, 1) is None


def test_a_group_before_its_first_generation_is_converted_too() -> None:
    settings = GroupConfig(group_initial_rebalance_delay_ms=3_000)
    shard = GroupShard(settings, TopicImage(1, (GroupTopic("clicks", CLICKS, 2),)))
    parked = shard.send(join_request())

    reply = consumer_beat(shard, "new")
    assert (reply.error, reply.member_epoch) == (None, 1)
    assert len(reply.assignment) == 1
    assert shard.answer(parked).error is GroupError.REBALANCE_IN_PROGRESS


def test_a_static_member_converts_a_group_before_its_first_generation() -> None:
    """It asks for nothing new, but its epoch must not be 0: that would join for ever."""
    settings = GroupConfig(group_initial_rebalance_delay_ms=3_000)
    shard = GroupShard(settings, TopicImage(1, (GroupTopic("clicks", CLICKS, 2),)))
    shard.send(join_request(instance_id="i"))

    reply = consumer_beat(shard, "new", instance_id="i")

    assert reply.member_epoch == 1
    assert len(reply.assignment) == 2


def test_partitions_that_do_not_exist_are_left_behind(shard: GroupShard) -> None:
    token = shard.send(join_request())
    shard.advance(0)
    old = shard.answer(token).member_id
    given = [P0, TopicPartition("clicks", 2), TopicPartition("gone", 0)]
    sync(shard, old, 1, **{old: write_assignment(1, given)})
    consumer_beat(shard, "new")

    group = shard.group("g")
    assert isinstance(group, ConsumerGroup)
    assert group.image.current_of(old).assigned == {TopicIdPartition(CLICKS, 0)}


def protocols_of(**topics: str) -> tuple[MemberProtocol, ...]:
    """Offer assignors in this order, each with a topic of its own to tell them apart."""
    return tuple(MemberProtocol(name, subscription_blob([topic])) for name, topic in topics.items())


def consumer_group(shard: GroupShard) -> ConsumerGroup:
    group = shard.group("g")
    assert isinstance(group, ConsumerGroup)
    return group


def test_a_silent_classic_member_is_removed_after_the_conversion(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    shard.advance(SESSION_MS - 1)
    assert old in consumer_group(shard).members
    shard.advance(1)
    assert list(consumer_group(shard).members) == ["new"]


def test_a_conversion_by_a_static_member_keeps_the_leaders_plan(shard: GroupShard) -> None:
    """The one that takes its place over asks for nothing new, so no partition moves."""
    first = shard.send(join_request(instance_id="i"))
    second = shard.send(join_request(instance_id="j"))
    shard.advance(0)
    idle = shard.answer(second).member_id
    mine = shard.answer(first).member_id
    sync(shard, mine, 1, **{mine: write_assignment(1, [P0, P1])})

    reply = consumer_beat(shard, "new", instance_id="i")

    assert reply.assignment == {TopicIdPartition(CLICKS, 0), TopicIdPartition(CLICKS, 1)}
    assert reply.member_epoch == 1
    assert beat(shard, idle, 1) is None


def test_before_the_first_generation_a_members_first_assignor_counts() -> None:
    settings = GroupConfig(group_initial_rebalance_delay_ms=3_000)
    shard = GroupShard(settings, TopicImage(1, (GroupTopic("clicks", CLICKS, 2),)))
    shard.send(join_request(protocols=protocols_of(range="clicks", roundrobin="views")))

    consumer_beat(shard, "new")

    names = {each.subscribed_topic_names for each in consumer_group(shard).members.values()}
    assert names == {("clicks",)}


def test_the_assignor_that_the_group_agreed_on_stays_in_use(shard: GroupShard) -> None:
    """A member that has joined and not yet synced must hear of the change, not of an error."""
    first = shard.send(join_request(protocols=protocols_of(range="views", roundrobin="clicks")))
    shard.send(join_request(protocols=protocols_of(roundrobin="clicks")))
    shard.advance(0)
    old = shard.answer(first)
    assert old.protocol == "roundrobin"

    consumer_beat(shard, "new")

    assert consumer_group(shard).members[old.member_id].subscribed_topic_names == ("clicks",)
    request = SyncRequest(
        group_id="g", member_id=old.member_id, generation=1, protocol="roundrobin"
    )
    assert shard.ask(request).error is GroupError.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("subscription", "assignment"),
    [(b"\0", write_assignment(1, [P0])), (subscription_blob(["clicks"]), b"\0")],
)
def test_bytes_that_are_no_consumers_keep_the_group_classic(
    shard: GroupShard, subscription: bytes, assignment: bytes
) -> None:
    token = shard.send(join_request(protocols=(MemberProtocol("range", subscription),)))
    shard.advance(0)
    old = shard.answer(token).member_id
    sync(shard, old, 1, **{old: assignment})

    assert consumer_beat(shard, "new").error is GroupError.GROUP_ID_NOT_FOUND
    assert beat(shard, old, 1) is None


def test_a_partition_that_two_members_claim_is_waited_for_once(shard: GroupShard) -> None:
    tokens = [shard.send(join_request(owned=[P0, P1])) for _ in range(2)]
    shard.advance(0)
    leader = shard.answer(tokens[0]).member_id
    sync(shard, leader, 1, **{leader: write_assignment(1, [P0])})

    consumer_beat(shard, "new")

    waiting = [each.pending_revocation for each in consumer_group(shard).image.current.values()]
    assert sorted(map(len, waiting)) == [0, 0, 1]


# Members of the classic protocol in a group of the other kind.


def test_a_sync_returns_the_version_that_the_member_speaks(shard: GroupShard) -> None:
    old = mixed(shard)
    (held,) = consumer_group(shard).image.current_of(old).assigned
    where = TopicPartition("clicks", held.partition)
    assert sync(shard, old, 2).assignment == write_assignment(1, [where])


def test_a_sync_that_is_refused_is_a_reason_to_join_in_time(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    joined = shard.ask(join_request(rebalance_timeout_ms=1_000))
    sync(shard, joined.member_id, joined.generation)
    consumer_beat(shard, "newer")
    refused = sync(shard, joined.member_id, joined.generation)

    assert refused.error is GroupError.REBALANCE_IN_PROGRESS
    shard.advance(999)
    assert joined.member_id in consumer_group(shard).members
    shard.advance(1)
    assert joined.member_id not in consumer_group(shard).members


def test_a_member_that_is_asked_to_join_has_at_least_a_moment(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    joined = shard.ask(join_request(rebalance_timeout_ms=0))
    sync(shard, joined.member_id, joined.generation)
    consumer_beat(shard, "newer")
    shard.advance(1_000)
    error = beat(shard, joined.member_id, joined.generation)

    assert error is GroupError.REBALANCE_IN_PROGRESS
    shard.advance(0)
    assert joined.member_id in consumer_group(shard).members
    shard.advance(1)
    assert joined.member_id not in consumer_group(shard).members


def test_a_static_member_may_leave_its_instance_id_out(shard: GroupShard) -> None:
    old = stable_classic(shard, instance_id="i")
    consumer_beat(shard, "new")
    for instance_id in ("i", None):
        request = HeartbeatRequest(
            group_id="g", member_id=old, generation=1, instance_id=instance_id
        )
        assert shard.ask(request).error is GroupError.REBALANCE_IN_PROGRESS


def test_only_other_members_limit_the_choice_of_an_assignor(shard: GroupShard) -> None:
    """A restarted instance does not have to agree with its former self."""
    stable_classic(shard, instance_id="i")
    consumer_beat(shard, "new")
    other = protocols_of(roundrobin="clicks")
    stranger = shard.ask(join_request(instance_id="j", protocols=other))
    restarted = shard.ask(join_request(instance_id="i", protocols=other))

    assert stranger.error is GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert restarted.error is None


def test_the_topics_of_the_first_assignor_count(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    joined = shard.ask(join_request(protocols=protocols_of(range="clicks", roundrobin="views")))
    member = consumer_group(shard).members[joined.member_id]
    assert member.subscribed_topic_names == ("clicks",)


def test_a_classic_member_may_join_a_consumer_group(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    required = shard.ask(join_request(require_member_id=True))
    joined = shard.ask(join_request(required.member_id, require_member_id=True))
    consumer_beat(shard, "new", epoch=1, owned=frozenset())

    assert required.error is GroupError.MEMBER_ID_REQUIRED
    assert joined.error is None
    assert beat(shard, joined.member_id, joined.generation) is GroupError.REBALANCE_IN_PROGRESS
    again = shard.ask(join_request(joined.member_id))
    assert len(partitions(sync(shard, joined.member_id, again.generation))) == 1


def test_a_member_that_was_removed_gives_up_before_it_joins(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    refused = shard.ask(join_request("was-here", owned=[P0]))
    assert refused.error is GroupError.UNKNOWN_MEMBER_ID


def test_an_assignor_that_the_others_lack_is_refused(shard: GroupShard) -> None:
    stable_classic(shard)
    consumer_beat(shard, "new")
    other = (MemberProtocol("other", subscription_blob(["clicks"])),)

    assert shard.ask(join_request(protocols=other)).error is GroupError.INCONSISTENT_GROUP_PROTOCOL


def test_a_generation_that_has_passed_is_refused(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    shard.ask(join_request(old))

    assert beat(shard, old, 1) is GroupError.ILLEGAL_GENERATION
    assert sync(shard, old, 1).error is GroupError.ILLEGAL_GENERATION
    assert commit(shard, member_id=old, generation=1).error is GroupError.ILLEGAL_GENERATION
    assert commit(shard, member_id=old, generation=2).error is None


def test_a_sync_that_a_change_overtook_must_join_again(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    shard.ask(join_request(old))
    consumer_beat(shard, "newer")

    assert sync(shard, old, 2).error is GroupError.REBALANCE_IN_PROGRESS


def test_a_member_of_the_new_protocol_has_no_classic_requests(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    assert beat(shard, "new", 1) is GroupError.UNKNOWN_MEMBER_ID
    leave = LeaveRequest(group_id="g", members=(LeavingMember(member_id="new"),))
    (left,) = shard.ask(leave).members
    assert left.error is GroupError.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("joins", [False, True])
def test_a_member_that_does_not_go_on_in_time_is_removed(shard: GroupShard, joins: bool) -> None:
    """It sends heartbeats, but neither joins again nor syncs."""
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    generation = shard.ask(join_request(old)).generation if joins else 1
    epoch = 2
    for _ in range(REBALANCE_MS // 5_000 + 1):
        beat(shard, old, generation)
        epoch = consumer_beat(shard, "new", epoch=epoch).member_epoch
        shard.advance(5_000)

    assert beat(shard, old, generation) is GroupError.UNKNOWN_MEMBER_ID


def test_a_classic_member_has_its_own_session(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    shard = shard.reopened()

    shard.advance(SESSION_MS)

    group = shard.group("g")
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["new"]
    assert beat(shard, old, 1) is GroupError.UNKNOWN_MEMBER_ID


class NoRights:
    version = 1

    def may_describe(self, name: str) -> bool:
        return False


def test_a_classic_member_learns_nothing_about_topics_it_may_not_see(shard: GroupShard) -> None:
    """Its topics stand in bytes that no handler looks into."""
    consumer_beat(shard, "new")
    joined = shard.ask(join_request(rights=NoRights()))
    consumer_beat(shard, "new", epoch=joined.generation - 1, owned=frozenset())
    again = shard.ask(join_request(joined.member_id, rights=NoRights()))

    assert partitions(sync(shard, joined.member_id, again.generation)) == frozenset()


def test_a_member_that_goes_on_in_time_stays(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    assert beat(shard, old, 1) is GroupError.REBALANCE_IN_PROGRESS
    shard.advance(SESSION_MS - 1)
    assert beat(shard, old, 1) is GroupError.REBALANCE_IN_PROGRESS
    assert sync(shard, old, shard.ask(join_request(old)).generation).error is None
    for _ in range(REBALANCE_MS // 5_000 + 1):
        shard.advance(5_000)
        consumer_beat(shard, "new", epoch=2)
        assert beat(shard, old, 2) is None


def test_a_group_takes_no_more_than_its_maximum() -> None:
    shard = new_shard(group_consumer_max_size=1)
    consumer_beat(shard, "new")
    assert shard.ask(join_request()).error is GroupError.GROUP_MAX_SIZE_REACHED


def test_joining_begins_a_session(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    shard.advance(SESSION_MS - 1)
    shard.ask(join_request(old))
    shard.advance(SESSION_MS - 1)
    assert sync(shard, old, 2).error is None
    shard.advance(SESSION_MS - 1)
    assert beat(shard, old, 2) is None


def test_a_member_without_a_rebalance_timeout_has_a_moment(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    joined = shard.ask(join_request(rebalance_timeout_ms=0))

    def members() -> list[str]:
        group = shard.group("g")
        assert group is not None
        return sorted(group.members)

    shard.advance(0)
    assert joined.member_id in members()
    shard.advance(1)
    assert members() == ["new"]


def test_the_first_assignor_of_a_member_is_its_own(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    protocols = tuple(
        MemberProtocol(name, subscription_blob(["clicks"])) for name in ("range", "roundrobin")
    )
    joined = shard.ask(join_request(protocols=protocols))
    assert joined.protocol == "range"
    request = SyncRequest(
        group_id="g",
        member_id=joined.member_id,
        generation=joined.generation,
        protocol_type="consumer",
        protocol="range",
    )
    synced = shard.ask(request)
    assert (synced.error, synced.protocol_type, synced.protocol) == (None, "consumer", "range")
    for wrong in ({"protocol": "roundrobin"}, {"protocol_type": "connect"}):
        refused = shard.ask(replace(request, **wrong))
        assert refused.error is GroupError.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_that_changes_its_protocol_has_nothing_to_sync(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    joined = shard.ask(join_request(rebalance_timeout_ms=1_000))

    assert consumer_beat(shard, joined.member_id).error is None
    shard.advance(5_000)

    assert joined.member_id in consumer_group(shard).members


def test_a_classic_member_commits_without_knowing_epochs(shard: GroupShard) -> None:
    old = mixed(shard)
    reply = commit(shard, member_id=old, generation=2, knows_epochs=False)
    assert reply.error is None


# Downgrade.


def mixed(shard: GroupShard) -> str:
    """Make a group at epoch 2 with one member of each protocol."""
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    sync(shard, old, shard.ask(join_request(old)).generation)
    consumer_beat(shard, "new", epoch=2)
    return old


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group(shard: GroupShard) -> None:
    old = mixed(shard)
    commit(shard, member_id=old, generation=2)

    consumer_beat(shard, "new", epoch=-1)

    for each in (shard, shard.reopened()):
        assert kind(each) is GroupType.CLASSIC
        assert fetch(each).offset == 5
    assert beat(shard, old, 2) is GroupError.REBALANCE_IN_PROGRESS
    assert commit(shard, member_id=old, generation=2).error is None, "before it gives up"
    joined = shard.ask(join_request(old))
    assert (joined.generation, joined.leader) == (3, old)


def test_a_silent_last_member_leaves_a_classic_group_too(shard: GroupShard) -> None:
    old = mixed(shard)
    for _ in range(10):
        shard.advance(5_000)
        if isinstance(shard.group("g"), ConsumerGroup):
            assert beat(shard, old, 2) is None

    group = shard.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.PREPARING_REBALANCE
    assert consumer_beat(shard, "new", epoch=2).error is GroupError.UNKNOWN_MEMBER_ID
    assert consumer_beat(shard, "new").error is None, "and it may come back"


def test_a_classic_group_knows_what_its_members_hold(shard: GroupShard) -> None:
    old = mixed(shard)
    before = shard.group("g")
    assert isinstance(before, ConsumerGroup)
    (held,) = before.image.current_of(old).assigned

    consumer_beat(shard, "new", epoch=-1)

    group = shard.group("g")
    assert isinstance(group, ClassicGroup)
    where = TopicPartition("clicks", held.partition)
    assert group.members[old].assignment == write_assignment(1, [where])


def test_the_members_of_a_downgraded_group_are_in_the_log(shard: GroupShard) -> None:
    old = mixed(shard)
    consumer_beat(shard, "new", epoch=-1)

    restarted = shard.reopened()

    assert beat(restarted, old, 2) is None, "a crash brings back the generation it had"


def test_the_first_member_leads_a_downgraded_group(shard: GroupShard) -> None:
    tokens = [shard.send(join_request()) for _ in range(2)]
    shard.advance(0)
    ids = [shard.answer(token).member_id for token in tokens]
    consumer_beat(shard, "new")

    consumer_beat(shard, "new", epoch=-1)

    again = [shard.send(join_request(id_)) for id_ in reversed(ids)]
    assert {shard.answer(token).leader for token in again} == {ids[0]}


def test_a_downgraded_group_knows_all_assignors_of_its_members(shard: GroupShard) -> None:
    offered = protocols_of(range="clicks", roundrobin="clicks")
    old = stable_classic(shard, protocols=offered)
    consumer_beat(shard, "new")
    consumer_beat(shard, "new", epoch=-1)

    joining = shard.send(join_request(protocols=protocols_of(roundrobin="clicks")))
    shard.send(join_request(old, protocols=offered))

    assert shard.answer(joining).protocol == "roundrobin"


@pytest.mark.parametrize(("maximum", "expected"), [(1, ClassicGroup), (0, ConsumerGroup)])
def test_a_group_that_is_too_large_for_the_classic_protocol_stays(
    maximum: int, expected: type
) -> None:
    shard = new_shard(group_max_size=maximum)
    mixed(shard)
    consumer_beat(shard, "new", epoch=-1)
    assert type(shard.group("g")) is expected


def test_a_member_that_left_the_classic_group_does_not_come_back(shard: GroupShard) -> None:
    old = mixed(shard)
    consumer_beat(shard, "new", epoch=-1)
    shard.ask(LeaveRequest(group_id="g", members=(LeavingMember(member_id=old),)))
    consumer_beat(shard, "newer")

    group = shard.reopened(compacted=True).group("g")

    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["newer"]


def test_the_policy_can_forbid_the_way_back() -> None:
    shard = new_shard(group_consumer_migration_policy="upgrade")
    mixed(shard)

    consumer_beat(shard, "new", epoch=-1)

    assert kind(shard) is GroupType.CONSUMER


def test_the_last_classic_member_leaves_a_consumer_group(shard: GroupShard) -> None:
    old = mixed(shard)
    leave = LeaveRequest(group_id="g", members=(LeavingMember(member_id=old),))
    (left,) = shard.ask(leave).members

    assert left.error is None
    assert kind(shard) is GroupType.CONSUMER
    reply = consumer_beat(shard, "new", epoch=2)
    assert reply.assignment is not None
    assert len(reply.assignment) == 2


@pytest.mark.parametrize("compacted", [False, True])
def test_nothing_of_the_former_kind_comes_back_from_the_log(
    shard: GroupShard, compacted: bool
) -> None:
    old = mixed(shard)
    consumer_beat(shard, "new", epoch=-1)
    consumer_beat(shard, "newer")
    leave = LeaveRequest(group_id="g", members=(LeavingMember(member_id=old),))
    shard.ask(leave)

    group = shard.reopened(compacted=compacted).group("g")

    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["newer"]
    consumer_beat(shard, "newer", epoch=-1)
    shard.ask(DeleteGroupRequest(group_id="g"))
    assert shard.reopened(compacted=compacted).group("g") is None


# Static members.


def test_a_restarted_instance_takes_its_place_over_with_the_new_protocol(shard: GroupShard) -> None:
    old = stable_classic(shard, instance_id="i")

    reply = consumer_beat(shard, "new", instance_id="i")

    assert reply.assignment == {TopicIdPartition(CLICKS, 0), TopicIdPartition(CLICKS, 1)}
    group = shard.group("g")
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["new"]
    request = HeartbeatRequest(group_id="g", member_id=old, generation=1, instance_id="i")
    assert shard.ask(request).error is GroupError.FENCED_INSTANCE_ID


def test_an_instance_that_comes_back_with_partitions_gives_them_up_first(
    shard: GroupShard,
) -> None:
    stable_classic(shard, instance_id="i")
    consumer_beat(shard, "new")
    joined = shard.ask(join_request(instance_id="i", owned=[P0, P1]))

    assert len(partitions(sync(shard, joined.member_id, joined.generation))) == 1
    assert consumer_beat(shard, "new", epoch=2).assignment is None


def test_an_instance_that_is_another_member_now_is_fenced(shard: GroupShard) -> None:
    consumer_beat(shard, "new")
    first = shard.ask(join_request(instance_id="i", require_member_id=True))
    second = shard.ask(join_request(instance_id="i", require_member_id=True))

    assert (first.error, second.error) == (None, None)
    assert first.member_id != second.member_id
    fenced = shard.ask(join_request(first.member_id, instance_id="i"))
    assert fenced.error is GroupError.FENCED_INSTANCE_ID
    leaving = (
        LeavingMember(member_id=first.member_id, instance_id="i"),
        LeavingMember(instance_id="i"),
    )
    left = shard.ask(LeaveRequest(group_id="g", members=leaving)).members
    assert [each.error for each in left] == [GroupError.FENCED_INSTANCE_ID, None]


def test_an_instance_that_the_group_does_not_know_is_not_fenced(shard: GroupShard) -> None:
    old = stable_classic(shard)
    consumer_beat(shard, "new")
    request = HeartbeatRequest(group_id="g", member_id=old, generation=1, instance_id="other")
    assert shard.ask(request).error is GroupError.UNKNOWN_MEMBER_ID


def test_a_restarted_instance_takes_its_place_over_with_the_classic_protocol(
    shard: GroupShard,
) -> None:
    consumer_beat(shard, "new", instance_id="i")

    joined = shard.ask(join_request(instance_id="i"))

    assert joined.error is None
    assert kind(shard) is GroupType.CLASSIC, "no member of the new protocol is left"
    again = consumer_beat(shard, "new", epoch=1, instance_id="i")
    assert again.error is GroupError.UNKNOWN_MEMBER_ID
