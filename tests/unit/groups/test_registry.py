from typing import Any

import pytest

from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from headrace.groups.consumer.message import ConsumerHeartbeat
from headrace.groups.description import GroupType, ListedGroup
from headrace.groups.error import GroupError
from headrace.groups.offset.message import (
    CommitReply,
    CommitRequest,
    DeleteGroupRequest,
    OffsetDeleteRequest,
    OffsetToCommit,
)
from headrace.groups.record import MemberProtocol
from headrace.groups.record_codec import decode
from headrace.groups.request import GroupReply, GroupRequest
from headrace.model.ids import TopicPartition
from testkit.simulation.group_member import (
    CLICKS_0,
    classic_member,
    commit,
    consumer_beat,
    fetch,
    leave_classic,
    subscription,
)
from testkit.simulation.group_shard import GroupShard, LoggedRecord

# Time.


def test_records_have_the_time_of_the_wall_clock(shard: GroupShard) -> None:
    shard.wall_skew_ms = 3_600_000
    leave_classic(shard, classic_member(shard, "clicks"))
    commit(shard)

    written = [decode(each.key, each.value).value for each in shard.log]
    group, offset = written[-2:]
    expected = shard.now_ms + 3_600_000
    assert (group.state_timestamp_ms, offset.commit_timestamp_ms) == (expected, expected)


# Deleting groups.


def test_empty_group_is_deleted_with_its_offsets(shard: GroupShard) -> None:
    leave_classic(shard, classic_member(shard, "clicks"))
    commit(shard)

    reply = shard.ask(DeleteGroupRequest(group_id="g"))

    assert reply.error is None
    assert shard.registry.group_ids() == shard.reopened().registry.group_ids() == []


@pytest.mark.parametrize("make", [classic_member, consumer_beat])
def test_group_with_members_is_not_deleted(shard: GroupShard, make: Any) -> None:
    make(shard)

    reply = shard.ask(DeleteGroupRequest(group_id="g"))
    missing = shard.ask(DeleteGroupRequest(group_id="missing"))

    assert reply.error is GroupError.NON_EMPTY_GROUP
    assert missing.error is GroupError.GROUP_ID_NOT_FOUND


def test_consumer_group_is_deleted_for_good(shard: GroupShard) -> None:
    consumer_beat(shard, subscribed_topic_regex="v.*")
    consumer_beat(shard, epoch=-1)

    shard.ask(DeleteGroupRequest(group_id="g"))

    assert shard.registry.group_ids() == shard.reopened().registry.group_ids() == []


# Groups of both protocols.


def kinds(log: list[Any]) -> list[str]:
    """Return what was appended, in order: the kind of each record, and whether it deletes."""
    found = []
    for entry in log:
        record = decode(entry.key, entry.value)
        found.append(type(record).__name__ + ("" if entry.value is not None else " deleted"))
    return found


def test_a_classic_group_begins_with_its_record(shard: GroupShard) -> None:
    """A coordinator that takes over before the first generation must know of the group."""
    shard.send(
        JoinRequest(
            group_id="g",
            client_id="c",
            protocol_type="consumer",
            protocols=(MemberProtocol("range", subscription("clicks")),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            require_member_id=False,
        )
    )

    assert kinds(shard.log)[:1] == ["GroupMetadataRecord"]


def test_an_empty_group_leaves_nothing_of_its_old_protocol(shard: GroupShard) -> None:
    leave_classic(shard, classic_member(shard, "clicks"))
    before = len(shard.log)
    consumer_beat(shard)
    assert kinds(shard.log[before:])[0] == "GroupMetadataRecord deleted"

    consumer_beat(shard, epoch=-1)
    before = len(shard.log)
    classic_member(shard, "clicks")
    written = kinds(shard.log[before:])
    assert "GroupEpochRecord deleted" in written
    assert written.index("GroupEpochRecord deleted") < written.index("GroupMetadataRecord")


def test_a_record_that_deletes_what_was_never_there_creates_no_group(shard: GroupShard) -> None:
    consumer_beat(shard)
    consumer_beat(shard, epoch=-1)
    shard.ask(DeleteGroupRequest(group_id="g"))

    shard.log = [
        entry for entry in shard.log if isinstance(entry, LoggedRecord) and not entry.value
    ]

    assert shard.reopened().registry.group_ids() == []


def test_a_group_that_only_holds_offsets_is_deleted_without_a_record(shard: GroupShard) -> None:
    commit(shard)
    before = len(shard.log)

    shard.ask(DeleteGroupRequest(group_id="g"))

    assert kinds(shard.log[before:]) == ["OffsetCommitRecord deleted"]


def test_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(
    shard: GroupShard,
) -> None:
    leave_classic(shard, classic_member(shard, "clicks"))
    commit(shard)

    reply = consumer_beat(shard)

    for each in (shard, shard.reopened()):
        assert [group.type for group in each.registry.list_groups()] == [GroupType.CONSUMER]
        assert fetch(each).offset == 5
    assert reply.member_epoch == 1


def test_empty_consumer_group_becomes_a_classic_group(shard: GroupShard) -> None:
    consumer_beat(shard)
    consumer_beat(shard, epoch=-1)

    classic_member(shard, "clicks")

    for each in (shard, shard.reopened()):
        assert [group.type for group in each.registry.list_groups()] == [GroupType.CLASSIC]


def test_group_of_another_kind_stays_with_its_protocol(shard: GroupShard) -> None:
    classic_member(shard, "clicks", protocol_type="connect")
    refused = consumer_beat(shard)

    other = JoinRequest(
        group_id="k",
        protocol_type="connect",
        protocols=(MemberProtocol("range", b""),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )
    consumer_beat(shard, group_id="k")
    refused_join = shard.ask(other)

    assert refused.error is GroupError.GROUP_ID_NOT_FOUND
    assert refused_join.error is GroupError.INCONSISTENT_GROUP_PROTOCOL


def leave_errors(shard: GroupShard, *leaving: LeavingMember) -> list[GroupError | None]:
    request = LeaveRequest(group_id="g", members=leaving)
    return [member.error for member in shard.ask(request).members]


def test_leaving_a_group_that_is_not_there_is_answered_for_each_member(shard: GroupShard) -> None:
    errors = leave_errors(shard, LeavingMember(member_id="a"), LeavingMember(member_id="b"))

    assert errors == [GroupError.UNKNOWN_MEMBER_ID] * 2
    assert shard.registry.group_ids() == []


def test_admin_removes_a_static_member_of_a_consumer_group(shard: GroupShard) -> None:
    consumer_beat(shard, instance_id="i")

    errors = leave_errors(
        shard,
        LeavingMember(instance_id="other"),
        LeavingMember(member_id="m"),
        LeavingMember(instance_id="i"),
    )

    assert errors == [GroupError.UNKNOWN_MEMBER_ID, GroupError.UNKNOWN_MEMBER_ID, None]
    assert [group.state for group in shard.registry.list_groups()] == ["Empty"]


@pytest.mark.parametrize(
    ("request_", "limited"),
    [
        (
            ConsumerHeartbeat(group_id="g", member_id="m", instance_id="i", member_epoch=-1),
            False,
        ),
        (LeaveRequest(group_id="g", members=(LeavingMember(instance_id="i"),)), False),
        (CommitRequest(group_id="other", offsets={CLICKS_0: OffsetToCommit(offset=1)}), True),
    ],
)
def test_who_leaves_is_not_refused_for_what_it_writes(
    shard: GroupShard, request_: GroupRequest[GroupReply], limited: bool
) -> None:
    consumer_beat(shard, instance_id="i")

    effects = shard.registry.handle(request_, "token", shard.now_ms)

    assert effects.records
    assert effects.requested is limited


# Listing and describing.


def test_groups_are_listed_by_state_and_type(shard: GroupShard) -> None:
    commit(shard, group_id="simple")
    classic_member(shard, "clicks")
    consumer_beat(shard, group_id="k")

    listed = shard.registry.list_groups()
    stable = shard.registry.list_groups(states=["STABLE"])
    consumers = shard.registry.list_groups(types=["Consumer"])

    assert listed == [
        ListedGroup(group_id="g", protocol_type="consumer", state="Stable", type=GroupType.CLASSIC),
        ListedGroup(
            group_id="k", protocol_type="consumer", state="Stable", type=GroupType.CONSUMER
        ),
        ListedGroup(group_id="simple", protocol_type="", state="Empty", type=GroupType.CLASSIC),
    ]
    assert [group.group_id for group in stable] == ["g", "k"]
    assert [group.group_id for group in consumers] == ["k"]


def test_each_protocol_describes_its_own_groups(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")
    consumer_beat(shard, group_id="k")

    classic = shard.registry.describe_classic("g")
    consumer = shard.registry.describe_consumer("k")

    assert classic is not None
    assert (classic.state, classic.protocol) == ("Stable", "range")
    assert classic.members[0].member_id == member_id
    assert classic.members[0].metadata == subscription("clicks")
    assert consumer is not None
    assert (consumer.group_epoch, consumer.assignment_epoch, consumer.assignor) == (1, 1, "uniform")
    assert consumer.members[0].assignment == consumer.members[0].target_assignment
    assert shard.registry.describe_classic("k") is None
    assert shard.registry.describe_consumer("g") is None
    assert shard.registry.describe_classic("missing") is None


def test_between_generations_the_bytes_of_members_mean_nothing(shard: GroupShard) -> None:
    classic_member(shard, "clicks")
    shard.send(
        JoinRequest(
            group_id="g",
            protocol_type="consumer",
            protocols=(MemberProtocol("range", subscription("clicks")),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            require_member_id=False,
        )
    )

    described = shard.registry.describe_classic("g")

    assert described is not None
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert {(each.metadata, each.assignment) for each in described.members} == {(b"", b"")}


def test_states_and_types_of_a_listing_must_both_fit(shard: GroupShard) -> None:
    classic_member(shard, "clicks")
    listed = shard.registry.list_groups

    assert len(listed(states=["stable"], types=["classic"])) == 1
    assert listed(states=["empty"], types=["classic"]) == []
    assert listed(states=["stable"], types=["consumer"]) == []


# The seam.


def test_what_a_timer_began_is_tried_again_when_its_append_failed(shard: GroupShard) -> None:
    consumer_beat(shard)
    shard.fail_appends = True
    shard.advance(45_000)
    shard.fail_appends = False
    assert shard.registry.deadline_ms() == shard.now_ms + 500

    shard.advance(499)
    assert [group.state for group in shard.registry.list_groups()] == ["Stable"]
    shard.advance(1)

    assert [group.state for group in shard.registry.list_groups()] == ["Empty"]


def test_a_shard_that_was_unloaded_knows_nothing(shard: GroupShard) -> None:
    offsets = {CLICKS_0: OffsetToCommit(offset=1)}
    consumer_beat(shard)
    shard.registry.handle(CommitRequest(group_id="h", offsets=offsets), "open", shard.now_ms)

    effects = shard.registry.unload()

    assert effects.replies == []
    assert shard.registry.describe_consumer("g") is None
    shard.registry.handle(CommitRequest(group_id="h", offsets=offsets), "next", shard.now_ms)


@pytest.mark.parametrize(
    "request_",
    [
        JoinRequest(
            group_id="g",
            protocol_type="consumer",
            protocols=(MemberProtocol("range", b""),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
        ),
        SyncRequest(group_id="g", member_id="m", generation=1),
        HeartbeatRequest(group_id="g", member_id="m", generation=1),
        LeaveRequest(group_id="g", members=(LeavingMember(member_id="m"),)),
        ConsumerHeartbeat(group_id="g", member_id="m", member_epoch=1),
        CommitRequest(group_id="g", offsets={CLICKS_0: OffsetToCommit(offset=1)}),
        OffsetDeleteRequest(group_id="g", partitions=[CLICKS_0]),
        DeleteGroupRequest(group_id="g"),
    ],
    ids=lambda request_: type(request_).__name__,
)
def test_every_request_gets_its_own_kind_of_reply(
    shard: GroupShard, request_: GroupRequest[GroupReply]
) -> None:
    reply = shard.ask(request_)

    assert type(reply) is type(request_.refused(GroupError.INVALID_GROUP_ID))


def test_texts_that_no_record_can_hold_are_refused(shard: GroupShard) -> None:
    long = "x" * 40_000
    request = JoinRequest(
        group_id="g",
        client_id=long,
        protocol_type="consumer",
        protocols=(MemberProtocol("range", b""),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )

    errors = [
        commit(shard, group_id=long).error,
        commit(shard, where=TopicPartition(long, 0)).error,
        shard.ask(request).error,
        consumer_beat(shard, long).error,
    ]

    assert errors == [GroupError.INVALID_REQUEST] * 4
    assert shard.registry.group_ids() == []


def test_error_of_a_rejected_event_can_be_chosen(shard: GroupShard) -> None:
    request = CommitRequest(group_id="g", offsets={CLICKS_0: OffsetToCommit(offset=1)})
    shard.registry.handle(request, "token", 0)

    effects = shard.registry.reject(0, GroupError.INVALID_COMMIT_OFFSET_SIZE)

    assert [each.token for each in effects.replies] == ["token"]
    assert effects.replies[0].reply == CommitReply(error=GroupError.INVALID_COMMIT_OFFSET_SIZE)


def test_second_event_must_wait_for_the_first(shard: GroupShard) -> None:
    offsets = {CLICKS_0: OffsetToCommit(offset=1)}
    request = CommitRequest(group_id="g", offsets=offsets)
    shard.registry.handle(request, "first", 0)

    with pytest.raises(AssertionError, match="adopt or reject"):
        shard.registry.handle(request, "second", 0)


def test_group_record_that_kafka_wrote_for_a_share_group_is_stepped_over(
    shard: GroupShard,
) -> None:
    shard.registry.replay(bytes.fromhex("000b000167"), bytes.fromhex("000000000001"))

    assert shard.registry.group_ids() == []


@pytest.mark.parametrize(
    ("timeout_ms", "refused"),
    [(6_000, False), (5_999, True), (1_800_000, False), (1_800_001, True)],
)
def test_the_limits_of_a_session_are_part_of_it(
    shard: GroupShard, timeout_ms: int, refused: bool
) -> None:
    token = shard.send(
        JoinRequest(
            group_id="g",
            client_id="c",
            protocol_type="consumer",
            protocols=(MemberProtocol("range", subscription("clicks")),),
            session_timeout_ms=timeout_ms,
            rebalance_timeout_ms=10_000,
            require_member_id=False,
        )
    )
    shard.advance(0)

    error = shard.answer(token).error
    assert (error is GroupError.INVALID_SESSION_TIMEOUT) is refused


def test_the_name_of_a_protocol_has_a_limit(shard: GroupShard) -> None:
    request = JoinRequest(
        group_id="g",
        client_id="c",
        protocol_type="consumer",
        protocols=(MemberProtocol("r" * 32_001, b""),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )

    assert shard.ask(request).error is GroupError.INVALID_REQUEST
