from typing import Any

import pytest

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import (
    HeartbeatReply,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic.state import ClassicState
from headrace.groups.config import GroupConfig
from headrace.groups.error import GroupError
from headrace.groups.record import MemberProtocol
from testkit.simulation.group_shard import GroupShard

RANGE = MemberProtocol("range", b"r")
STICKY = MemberProtocol("sticky", b"s")
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def join(shard: GroupShard, member_id: str = "", **changes: Any) -> Any:
    """Send a JoinGroup that does without KIP-394; returns its token."""
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "client_id": "c",
        "protocol_type": "consumer",
        "protocols": (RANGE,),
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "require_member_id": False,
        **changes,
    }
    return shard.send(JoinRequest(**fields))


def sync(
    shard: GroupShard, reply: JoinReply, assignments: dict[str, bytes] | None = None, **changes: Any
) -> Any:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": reply.member_id,
        "generation": reply.generation,
        "assignments": assignments or {},
        **changes,
    }
    return shard.send(SyncRequest(**fields))


def heartbeat(shard: GroupShard, member_id: str, generation: int, **changes: Any) -> HeartbeatReply:
    request = HeartbeatRequest(group_id="g", member_id=member_id, generation=generation, **changes)
    return shard.ask(request)


def leave(shard: GroupShard, *members: LeavingMember) -> Any:
    request = LeaveRequest(group_id="g", members=members)
    return shard.ask(request)


def state(shard: GroupShard) -> str:
    description = shard.registry.describe_classic("g")
    assert description is not None
    return description.state


def one_member(shard: GroupShard, **changes: Any) -> JoinReply:
    """A stable group of one, assigned `b"all"`."""
    token = join(shard, **changes)
    shard.advance(shard.config.group_initial_rebalance_delay_ms)
    reply = shard.answer(token)
    sync(shard, reply, {reply.member_id: b"all"}, instance_id=changes.get("instance_id"))
    assert state(shard) == ClassicState.STABLE
    return reply


def two_members(shard: GroupShard, **changes: Any) -> tuple[JoinReply, JoinReply]:
    """A stable group of a leader (assigned `b"1"`) and a follower (`b"2"`)."""
    first = one_member(shard, **changes)
    second_token = join(shard)
    first_token = join(shard, first.member_id, **changes)
    leader, follower = shard.answer(first_token), shard.answer(second_token)
    sync(shard, follower)
    sync(
        shard,
        leader,
        {leader.member_id: b"1", follower.member_id: b"2"},
        **{key: value for key, value in changes.items() if key == "instance_id"},
    )
    return leader, follower


# Joining.


def test_first_member_leads_a_first_generation(shard: GroupShard) -> None:
    token = join(shard)
    shard.advance(0)

    reply = shard.answer(token)

    assert reply.error is None
    assert (reply.generation, reply.protocol_type, reply.protocol) == (1, "consumer", "range")
    assert reply.leader == reply.member_id == "c-id1"
    assert [member.metadata for member in reply.members] == [b"r"]
    assert state(shard) == ClassicState.COMPLETING_REBALANCE


def test_first_join_phase_lasts_the_initial_delay() -> None:
    shard = GroupShard(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    token = join(shard)

    shard.advance(2_999)
    parked = shard.is_parked(token)
    shard.advance(1)

    assert parked
    assert shard.answer(token).generation == 1


def test_late_comer_prolongs_the_first_join_phase_up_to_the_rebalance_timeout() -> None:
    shard = GroupShard(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    tokens = [join(shard, rebalance_timeout_ms=5_000)]
    shard.advance(2_000)
    tokens.append(join(shard, rebalance_timeout_ms=5_000))

    shard.advance(1_000)
    still_parked = all(shard.is_parked(token) for token in tokens)
    tokens.append(join(shard, rebalance_timeout_ms=5_000))
    shard.advance(2_000)

    assert still_parked
    assert {shard.answer(token).generation for token in tokens} == {1}


def test_dynamic_member_must_ask_for_its_id_first(shard: GroupShard) -> None:
    refused = shard.answer(join(shard, require_member_id=True))

    token = join(shard, refused.member_id, require_member_id=True)
    shard.advance(0)

    assert (refused.error, refused.member_id) == (GroupError.MEMBER_ID_REQUIRED, "c-id1")
    assert shard.answer(token).member_id == refused.member_id


def test_join_phase_waits_for_a_member_that_was_given_its_id(shard: GroupShard) -> None:
    leader = one_member(shard)
    pending = shard.answer(join(shard, require_member_id=True)).member_id
    token = join(shard, leader.member_id)

    waits = shard.is_parked(token)
    join(shard, pending)

    assert waits
    assert len(shard.answer(token).members) == 2


def test_member_that_never_uses_its_id_is_forgotten_after_a_session(shard: GroupShard) -> None:
    leader = one_member(shard)
    pending = shard.answer(join(shard, require_member_id=True)).member_id
    token = join(shard, leader.member_id)

    shard.advance(SESSION_MS - 1)
    assert shard.is_parked(token)
    shard.advance(1)

    assert len(shard.answer(token).members) == 1
    assert shard.answer(join(shard, pending)).error is GroupError.UNKNOWN_MEMBER_ID


def test_unknown_member_cannot_join(shard: GroupShard) -> None:
    no_group = shard.answer(join(shard, "stranger"))
    one_member(shard)
    no_member = shard.answer(join(shard, "stranger"))

    assert no_group.error is no_member.error is GroupError.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_session_timeout_has_bounds(shard: GroupShard, session_ms: int) -> None:
    reply = shard.answer(join(shard, session_timeout_ms=session_ms))

    assert reply.error is GroupError.INVALID_SESSION_TIMEOUT


def test_empty_group_id_is_refused(shard: GroupShard) -> None:
    assert shard.answer(join(shard, group_id="")).error is GroupError.INVALID_GROUP_ID


@pytest.mark.parametrize("text", ["client_id", "instance_id", "protocol_type"])
def test_text_that_no_record_could_hold_is_refused_before_it_matters(
    shard: GroupShard, text: str
) -> None:
    reply = shard.answer(join(shard, **{text: "x" * 32_760}))

    assert reply.error is GroupError.INVALID_REQUEST
    assert shard.registry.group_ids() == []


def test_member_without_a_common_protocol_is_refused(shard: GroupShard) -> None:
    one_member(shard)

    other_protocol = shard.answer(join(shard, protocols=(STICKY,)))
    other_type = shard.answer(join(shard, protocol_type="connect"))
    no_protocol = shard.answer(join(shard, group_id="new", protocols=()))

    errors = {other_protocol.error, other_type.error, no_protocol.error}
    assert errors == {GroupError.INCONSISTENT_GROUP_PROTOCOL}


def test_most_wanted_common_protocol_wins(shard: GroupShard) -> None:
    third = MemberProtocol("third", b"")
    wishes = [(RANGE, STICKY), (STICKY, RANGE, third), (third, STICKY, RANGE)]
    tokens = [join(shard, protocols=wish) for wish in wishes]
    shard.advance(0)

    replies = [shard.answer(token) for token in tokens]

    assert {reply.protocol for reply in replies} == {"sticky"}
    assert [member.metadata for member in replies[0].members] == [b"s", b"s", b"s"]


def test_group_takes_no_more_than_its_maximum() -> None:
    shard = GroupShard(GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=1))
    one_member(shard)

    assert shard.answer(join(shard)).error is GroupError.GROUP_MAX_SIZE_REACHED


def test_new_member_starts_a_rebalance_that_waits_for_all(shard: GroupShard) -> None:
    first = one_member(shard)

    second_token = join(shard)
    beat = heartbeat(shard, first.member_id, 1)
    first_token = join(shard, first.member_id)

    assert beat.error is GroupError.REBALANCE_IN_PROGRESS
    assert shard.answer(first_token).generation == shard.answer(second_token).generation == 2
    assert len(shard.answer(first_token).members) == 2
    assert shard.answer(second_token).members == ()


def test_member_that_does_not_rejoin_in_time_is_dropped(shard: GroupShard) -> None:
    leader, follower = two_members(shard)
    token = join(shard, leader.member_id, protocols=(MemberProtocol("range", b"changed"),))
    for _ in range(REBALANCE_MS // 5_000):
        heartbeat(shard, follower.member_id, 2)
        shard.advance(5_000)

    assert shard.answer(token).generation == 3
    assert len(shard.answer(token).members) == 1
    assert heartbeat(shard, follower.member_id, 3).error is GroupError.UNKNOWN_MEMBER_ID


def test_member_that_repeats_its_join_gets_the_answer_once(shard: GroupShard) -> None:
    first = one_member(shard)
    lost = join(shard)
    second_id = next(
        member.member_id
        for member in shard.registry.describe_classic("g").members  # type: ignore[union-attr]
        if member.member_id != first.member_id
    )

    again = join(shard, second_id)
    join(shard, first.member_id)

    assert shard.answer(lost).error is GroupError.REBALANCE_IN_PROGRESS
    assert shard.answer(again).generation == 2


def test_follower_that_rejoins_unchanged_disturbs_no_other_member(shard: GroupShard) -> None:
    _, follower = two_members(shard)

    reply = shard.answer(join(shard, follower.member_id))

    assert (reply.error, reply.generation, reply.members) == (None, 2, ())
    assert state(shard) == ClassicState.STABLE


def test_leader_that_rejoins_starts_a_rebalance(shard: GroupShard) -> None:
    leader, _ = two_members(shard)

    token = join(shard, leader.member_id)

    assert shard.is_parked(token)
    assert state(shard) == ClassicState.PREPARING_REBALANCE


def test_lost_join_answer_is_repeated_in_the_sync_phase(shard: GroupShard) -> None:
    token = join(shard)
    shard.advance(0)
    lost = shard.answer(token)

    again = shard.answer(join(shard, lost.member_id))

    assert again == lost


def test_new_member_whose_client_is_gone_is_dropped_in_its_first_join_phase() -> None:
    config = GroupConfig(group_initial_rebalance_delay_ms=0, new_member_join_timeout_ms=7_000)
    shard = GroupShard(config)
    first = one_member(shard)
    newcomer = join(shard)

    for _ in range(2):
        heartbeat(shard, first.member_id, 1)
        shard.advance(4_000)

    assert shard.answer(newcomer).error is GroupError.UNKNOWN_MEMBER_ID


# Syncing.


def test_leader_brings_everyone_its_assignment(shard: GroupShard) -> None:
    first = one_member(shard)
    second_token = join(shard)
    leader = shard.answer(join(shard, first.member_id))
    follower = shard.answer(second_token)

    follower_sync = sync(shard, follower)
    waits = shard.is_parked(follower_sync)
    leader_sync = sync(shard, leader, {leader.member_id: b"1", follower.member_id: b"2"})

    assert waits
    assert shard.answer(leader_sync).assignment == b"1"
    expected = SyncReply(protocol_type="consumer", protocol="range", assignment=b"2")
    assert shard.answer(follower_sync) == expected
    assert state(shard) == ClassicState.STABLE


def test_member_the_leader_left_out_gets_nothing(shard: GroupShard) -> None:
    token = join(shard)
    shard.advance(0)

    reply = shard.answer(sync(shard, shard.answer(token), {}))

    assert (reply.error, reply.assignment) == (None, b"")


def test_late_sync_gets_the_assignment_of_the_stable_group(shard: GroupShard) -> None:
    leader, _ = two_members(shard)

    reply = shard.answer(sync(shard, leader))

    assert reply.assignment == b"1"


def in_sync_phase(shard: GroupShard, **changes: Any) -> tuple[JoinReply, JoinReply]:
    """A leader and a follower that have joined and not yet synced."""
    first = one_member(shard)
    second_token = join(shard, **changes)
    leader = shard.answer(join(shard, first.member_id))
    return leader, shard.answer(second_token)


def test_a_sync_after_the_leaders_gets_its_assignment_and_begins_a_session(
    shard: GroupShard,
) -> None:
    leader, follower = in_sync_phase(shard)
    sync(shard, leader, {leader.member_id: b"1", follower.member_id: b"2"})
    shard.advance(SESSION_MS - 1)

    reply = shard.answer(sync(shard, follower))

    assert (reply.error, reply.assignment) == (None, b"2")
    shard.advance(SESSION_MS - 1)
    assert heartbeat(shard, follower.member_id, 2).error is not GroupError.UNKNOWN_MEMBER_ID


def test_a_second_sync_of_a_member_answers_its_first(shard: GroupShard) -> None:
    leader, follower = in_sync_phase(shard)
    first = sync(shard, follower)
    second = sync(shard, follower)
    assert shard.answer(first).error is GroupError.REBALANCE_IN_PROGRESS

    sync(shard, leader, {follower.member_id: b"2"})

    assert shard.answer(second).assignment == b"2"


def test_a_join_that_is_repeated_begins_a_session(shard: GroupShard) -> None:
    _, follower = in_sync_phase(shard)
    shard.advance(SESSION_MS - 1)
    assert shard.answer(join(shard, follower.member_id)).error is None
    shard.advance(SESSION_MS - 1)

    assert shard.answer(join(shard, follower.member_id)).error is None


@pytest.mark.parametrize("syncs", [True, False])
def test_a_static_member_that_restarts_before_it_synced_must_sync_in_time(
    shard: GroupShard, syncs: bool
) -> None:
    """The limit of the sync phase holds for its new member id."""
    leader, _ = in_sync_phase(shard, instance_id="i")
    sync(shard, leader, {})
    restarted = shard.answer(join(shard, instance_id="i"))
    if syncs:
        sync(shard, restarted, instance_id="i")
    for _ in range(REBALANCE_MS // 5_000):
        heartbeat(shard, leader.member_id, 2)
        heartbeat(shard, restarted.member_id, 2)
        shard.advance(5_000)

    error = heartbeat(shard, restarted.member_id, 2).error
    assert error is (None if syncs else GroupError.UNKNOWN_MEMBER_ID)


def test_sync_in_a_new_rebalance_is_sent_back_to_join(shard: GroupShard) -> None:
    first = one_member(shard)
    second_token = join(shard)
    leader = shard.answer(join(shard, first.member_id))
    parked = sync(shard, shard.answer(second_token))

    join(shard)
    late = shard.answer(sync(shard, leader, {}))

    assert shard.answer(parked).error is GroupError.REBALANCE_IN_PROGRESS
    assert late.error is GroupError.REBALANCE_IN_PROGRESS
    join(shard, shard.answer(second_token).member_id)
    assert shard.answer(parked).error is GroupError.REBALANCE_IN_PROGRESS, "and not once more"
    group = shard.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.pending_sync == frozenset()


def test_sync_checks_generation_member_and_protocol(shard: GroupShard) -> None:
    leader = one_member(shard)

    errors = [
        shard.answer(sync(shard, leader, generation=7)).error,
        shard.answer(sync(shard, leader, member_id="stranger")).error,
        shard.answer(sync(shard, leader, protocol="sticky")).error,
        shard.answer(sync(shard, leader, protocol_type="connect")).error,
        shard.answer(sync(shard, leader, group_id="nowhere")).error,
    ]

    assert errors == [
        GroupError.ILLEGAL_GENERATION,
        GroupError.UNKNOWN_MEMBER_ID,
        GroupError.INCONSISTENT_GROUP_PROTOCOL,
        GroupError.INCONSISTENT_GROUP_PROTOCOL,
        GroupError.UNKNOWN_MEMBER_ID,
    ]


def test_member_that_never_syncs_is_dropped_after_the_rebalance_timeout(shard: GroupShard) -> None:
    first = one_member(shard)
    second_token = join(shard)
    leader = shard.answer(join(shard, first.member_id))
    silent = shard.answer(second_token)
    sync(shard, leader, {})

    for _ in range(REBALANCE_MS // 5_000):
        heartbeat(shard, leader.member_id, 2)
        heartbeat(shard, silent.member_id, 2)
        shard.advance(5_000)

    assert heartbeat(shard, leader.member_id, 2).error is GroupError.REBALANCE_IN_PROGRESS
    assert heartbeat(shard, silent.member_id, 2).error is GroupError.UNKNOWN_MEMBER_ID


# Sessions.


def test_heartbeat_keeps_a_session_alive(shard: GroupShard) -> None:
    member = one_member(shard)

    shard.advance(SESSION_MS - 1)
    first = heartbeat(shard, member.member_id, 1)
    shard.advance(SESSION_MS - 1)
    second = heartbeat(shard, member.member_id, 1)

    assert first.error is second.error is None


def test_silent_member_is_dropped_after_its_session(shard: GroupShard) -> None:
    member = one_member(shard)

    shard.advance(SESSION_MS)

    assert state(shard) == ClassicState.EMPTY
    assert heartbeat(shard, member.member_id, 1).error is GroupError.UNKNOWN_MEMBER_ID


def test_parked_member_does_not_time_out(shard: GroupShard) -> None:
    leader, follower = two_members(shard)
    token = join(shard, leader.member_id)

    for _ in range(3):
        shard.advance(SESSION_MS - 1_000)
        heartbeat(shard, follower.member_id, 2)

    assert shard.is_parked(token)


def test_heartbeat_checks_the_generation(shard: GroupShard) -> None:
    member = one_member(shard)

    assert heartbeat(shard, member.member_id, 0).error is GroupError.ILLEGAL_GENERATION


# Leaving.


def test_group_that_everyone_left_is_empty_in_a_new_generation(shard: GroupShard) -> None:
    member = one_member(shard)

    reply = leave(shard, LeavingMember(member_id=member.member_id))

    assert reply.members == (LeftMember(member_id=member.member_id, instance_id=None),)
    assert state(shard) == ClassicState.EMPTY
    token = join(shard)
    shard.advance(0)
    assert shard.answer(token).generation == 3


def test_leave_answers_for_each_member(shard: GroupShard) -> None:
    member = one_member(shard)

    reply = leave(
        shard, LeavingMember(member_id="stranger"), LeavingMember(member_id=member.member_id)
    )

    assert [left.error for left in reply.members] == [GroupError.UNKNOWN_MEMBER_ID, None]


def test_leaving_ends_the_wait_of_the_others(shard: GroupShard) -> None:
    leader, follower = two_members(shard)
    token = join(shard, leader.member_id)

    leave(shard, LeavingMember(member_id=follower.member_id))

    assert shard.answer(token).generation == 3


def test_leader_that_left_is_followed_by_another(shard: GroupShard) -> None:
    leader, follower = two_members(shard)
    leave(shard, LeavingMember(member_id=leader.member_id))

    reply = shard.answer(join(shard, follower.member_id))

    assert reply.leader == follower.member_id


def test_the_member_that_joined_first_leads_next(shard: GroupShard) -> None:
    first = one_member(shard)
    tokens = [join(shard) for _ in range(2)]
    shard.answer(join(shard, first.member_id))
    second, third = (shard.answer(token).member_id for token in tokens)
    leave(shard, LeavingMember(member_id=first.member_id))
    group = shard.group("g")
    assert isinstance(group, ClassicGroup)
    assert group.leader in group.members

    tokens = [join(shard, third), join(shard, second)]

    assert {shard.answer(token).leader for token in tokens} == {second}


def test_one_that_is_no_leader_leaves_the_leader_in_place(shard: GroupShard) -> None:
    leader, follower = two_members(shard)
    leave(shard, LeavingMember(member_id=follower.member_id))
    assert shard.answer(join(shard, leader.member_id)).leader == leader.member_id


def test_admin_removes_a_static_member_by_its_instance(shard: GroupShard) -> None:
    one_member(shard, instance_id="i")

    reply = leave(shard, LeavingMember(instance_id="i"))

    assert reply.members[0].error is None
    assert state(shard) == ClassicState.EMPTY


# Static members (KIP-345).


def test_static_member_that_restarts_keeps_its_assignment_without_a_rebalance(
    shard: GroupShard,
) -> None:
    before = one_member(shard, instance_id="i")

    after = shard.answer(join(shard, instance_id="i"))
    assignment = shard.answer(sync(shard, after, instance_id="i"))

    assert after.member_id != before.member_id
    assert after.generation == before.generation
    assert assignment.assignment == b"all"
    assert state(shard) == ClassicState.STABLE


def test_static_leader_that_restarts_keeps_the_assignment(shard: GroupShard) -> None:
    one_member(shard, instance_id="i")

    reply = shard.answer(join(shard, instance_id="i", can_skip_assignment=True))

    assert reply.skip_assignment
    assert reply.leader == reply.member_id
    assert len(reply.members) == 1


def test_static_leader_of_an_old_version_takes_itself_for_a_follower(shard: GroupShard) -> None:
    before = one_member(shard, instance_id="i")

    reply = shard.answer(join(shard, instance_id="i", can_skip_assignment=False))

    assert reply.leader == before.member_id != reply.member_id
    assert (reply.skip_assignment, reply.members) == (False, ())


def test_static_member_with_another_protocol_starts_a_rebalance(shard: GroupShard) -> None:
    one_member(shard, instance_id="i")

    token = join(shard, instance_id="i", protocols=(STICKY,))

    assert shard.answer(token).generation == 2
    assert shard.answer(token).protocol == "sticky"


def test_old_member_id_of_a_static_member_is_fenced(shard: GroupShard) -> None:
    before = one_member(shard, instance_id="i")
    join(shard, instance_id="i")

    errors = [
        heartbeat(shard, before.member_id, 1, instance_id="i").error,
        shard.answer(sync(shard, before, instance_id="i")).error,
        shard.answer(join(shard, before.member_id, instance_id="i")).error,
        leave(shard, LeavingMember(member_id=before.member_id, instance_id="i")).members[0].error,
    ]

    assert errors == [GroupError.FENCED_INSTANCE_ID] * 4


def test_parked_join_of_a_replaced_static_member_is_fenced(shard: GroupShard) -> None:
    first = one_member(shard)
    parked = join(shard, instance_id="i")

    replacement = join(shard, instance_id="i")
    join(shard, first.member_id)

    assert shard.answer(parked).error is GroupError.FENCED_INSTANCE_ID
    assert shard.answer(replacement).error is None


def test_static_member_that_restarts_in_its_first_join_phase_can_wait_for_its_end(
    shard: GroupShard,
) -> None:
    first = one_member(shard, session_timeout_ms=60_000)
    join(shard, instance_id="i")
    replacement = join(shard, instance_id="i")

    shard.advance(SESSION_MS * 2)
    join(shard, first.member_id, session_timeout_ms=60_000)

    assert shard.answer(replacement).error is None


def test_static_members_of_which_none_is_back_keep_their_places(shard: GroupShard) -> None:
    """The join phase ends without a single member that joined, and begins again."""
    one_member(shard, instance_id="i", rebalance_timeout_ms=2_000)
    member = shard.answer(join(shard, instance_id="i", rebalance_timeout_ms=2_000))
    newcomer = shard.answer(join(shard, require_member_id=True)).member_id
    join(shard, newcomer, require_member_id=True, rebalance_timeout_ms=2_000)
    leave(shard, LeavingMember(member_id=newcomer))
    shard.advance(3_000)

    assert state(shard) == ClassicState.PREPARING_REBALANCE
    group = shard.group("g")
    assert isinstance(group, ClassicGroup)
    assert (list(group.members), group.generation) == ([member.member_id], 1)
    deadline_ms = group.deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms > shard.now_ms
    back = join(shard, member.member_id, instance_id="i", rebalance_timeout_ms=2_000)
    assert shard.answer(back).generation == 2


def test_join_phase_does_not_drop_a_static_member(shard: GroupShard) -> None:
    static = one_member(shard, instance_id="i", session_timeout_ms=600_000)
    token = join(shard)

    shard.advance(REBALANCE_MS)

    reply = shard.answer(token)
    assert reply.leader == reply.member_id
    assert {member.member_id for member in reply.members} == {static.member_id, reply.member_id}


# Durability.


def test_stable_group_comes_back_from_its_record(shard: GroupShard) -> None:
    leader, follower = two_members(shard)

    after = shard.reopened()

    assert after.registry.describe_classic("g") == shard.registry.describe_classic("g")
    assert heartbeat(after, leader.member_id, 2).error is None
    assert after.answer(sync(after, follower)).assignment == b"2"


def test_a_group_has_its_leader_again_after_a_restart(shard: GroupShard) -> None:
    leader, follower = two_members(shard)

    after = shard.reopened()

    assert after.answer(join(after, follower.member_id)).leader == leader.member_id
    assert after.is_parked(join(after, leader.member_id)), "a leader that joins wants a rebalance"


def test_a_record_gives_the_group_that_wrote_it(shard: GroupShard) -> None:
    for wrote in (ClassicGroup("g", shard.config), stable(shard)):
        record = wrote.record()
        assert record.value is not None
        assert ClassicGroup.restore("g", shard.config, record.value).record() == record


def test_a_group_that_never_had_members_has_no_time_of_its_state(shard: GroupShard) -> None:
    record = ClassicGroup("g", shard.config).record()
    assert record.value is not None
    assert record.value.state_timestamp_ms == -1


def stable(shard: GroupShard) -> ClassicGroup:
    two_members(shard)
    group = shard.group("g")
    assert isinstance(group, ClassicGroup)
    return group


def test_rebalance_is_not_durable(shard: GroupShard) -> None:
    member = one_member(shard)
    join(shard)

    after = shard.reopened()

    assert state(after) == ClassicState.STABLE
    assert heartbeat(after, member.member_id, 1).error is None


def test_members_have_a_whole_session_after_a_restart(shard: GroupShard) -> None:
    member = one_member(shard)
    shard.advance(SESSION_MS - 1)

    after = shard.reopened()
    after.advance(SESSION_MS - 1)

    assert heartbeat(after, member.member_id, 1).error is None


def test_empty_group_comes_back_with_its_generation(shard: GroupShard) -> None:
    member = one_member(shard)
    leave(shard, LeavingMember(member_id=member.member_id))

    after = shard.reopened()
    token = join(after)
    after.advance(0)

    assert after.answer(token).generation == 3


def test_assignment_that_cannot_be_written_is_not_handed_out(shard: GroupShard) -> None:
    first = one_member(shard)
    second_token = join(shard)
    leader = shard.answer(join(shard, first.member_id))
    parked = sync(shard, shard.answer(second_token))

    shard.fail_appends = True
    failed = sync(shard, leader, {})
    still_parked = shard.is_parked(parked)
    shard.fail_appends = False
    retried = sync(shard, leader, {leader.member_id: b"1"})

    assert shard.answer(failed).error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert still_parked
    assert shard.answer(retried).assignment == b"1"
    assert not shard.is_parked(parked)


def test_static_member_that_cannot_be_written_stays_the_old_one(shard: GroupShard) -> None:
    before = one_member(shard, instance_id="i")

    shard.fail_appends = True
    refused = shard.answer(join(shard, instance_id="i"))

    assert refused.error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert heartbeat(shard, before.member_id, 1, instance_id="i").error is None


def test_timeout_that_cannot_be_written_is_tried_again(shard: GroupShard) -> None:
    one_member(shard)

    shard.fail_appends = True
    shard.advance(SESSION_MS)
    kept = state(shard)
    shard.fail_appends = False
    shard.advance(shard.config.append_retry_backoff_ms)

    assert kept == ClassicState.STABLE
    assert state(shard) == ClassicState.EMPTY


def test_unloading_answers_every_parked_request(shard: GroupShard) -> None:
    first = one_member(shard)
    second_token = join(shard)
    join(shard, first.member_id)
    parked_sync = sync(shard, shard.answer(second_token))

    shard.run(shard.registry.unload())

    assert shard.answer(parked_sync).error is GroupError.NOT_COORDINATOR
