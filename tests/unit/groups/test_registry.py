import struct
from typing import Any
from uuid import UUID

import pytest

from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    MemberProtocol,
    SyncRequest,
)
from headrace.groups.config import GroupConfig
from headrace.groups.consumer.message import ConsumerHeartbeat
from headrace.groups.description import GroupListing, GroupType
from headrace.groups.effect import Producer
from headrace.groups.error import GroupError, Refusal
from headrace.groups.offset.message import (
    CommitReply,
    CommitRequest,
    DeleteGroupRequest,
    FetchedOffset,
    OffsetDeleteRequest,
    OffsetToCommit,
)
from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.topic import GroupTopic, TopicImage
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from testkit.simulation.group_shard import GroupShard

CLICKS_0 = TopicPartition("clicks", 0)
VIEWS_0 = TopicPartition("views", 0)
PRODUCER = Producer(ProducerId(7), ProducerEpoch(0))
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def shard() -> GroupShard:
    topics = (GroupTopic("clicks", UUID(int=1), 2), GroupTopic("views", UUID(int=2), 2))
    return GroupShard(GroupConfig(group_initial_rebalance_delay_ms=0), TopicImage(1, topics))


def commit(
    shard: GroupShard, offset: int = 5, where: TopicPartition = CLICKS_0, **changes: Any
) -> CommitReply:
    fields: dict[str, Any] = {
        "group_id": "g",
        "offsets": {where: OffsetToCommit(offset=offset, leader_epoch=3, metadata="m")},
    }
    return shard.ask(CommitRequest(**fields | changes))


def fetch(shard: GroupShard, where: TopicPartition = CLICKS_0, **changes: Any) -> FetchedOffset:
    return shard.registry.fetch_offsets("g", [where], **changes)[where]


def subscription(*topics: str) -> bytes:
    """What a consumer sends with its JoinGroup: version, topics, no user data."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">i", -1)


def classic_member(shard: GroupShard, *topics: str, protocol_type: str = "consumer") -> str:
    """A stable classic group of one member at generation 1; returns its member id."""
    token = shard.send(
        JoinRequest(
            group_id="g",
            client_id="c",
            protocol_type=protocol_type,
            protocols=(MemberProtocol("range", subscription(*topics)),),
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            require_member_id=False,
        ),
    )
    shard.advance(0)
    reply = shard.answer(token)
    shard.ask(
        SyncRequest(group_id="g", member_id=reply.member_id, generation=reply.generation),
    )
    return str(reply.member_id)


def leave_classic(shard: GroupShard, member_id: str) -> None:
    members = (LeavingMember(member_id=member_id),)
    shard.ask(LeaveRequest(group_id="g", members=members))


def consumer_beat(shard: GroupShard, member_id: str = "m", epoch: int = 0, **changes: Any) -> Any:
    fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
    if epoch == 0:
        fields |= {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ("clicks",),
            "owned": frozenset(),
        }
    return shard.ask(ConsumerHeartbeat(**fields | changes))


# Committing and fetching.


def test_client_without_membership_commits_and_fetches(shard: GroupShard) -> None:
    reply = commit(shard)

    assert (reply.error, reply.errors) == (None, {})
    assert fetch(shard) == FetchedOffset(offset=5, leader_epoch=3, metadata="m")
    assert fetch(shard, VIEWS_0) == FetchedOffset()


def test_all_offsets_of_a_group(shard: GroupShard) -> None:
    commit(shard)
    commit(shard, where=VIEWS_0)

    assert list(shard.registry.fetch_offsets("g", None)) == [CLICKS_0, VIEWS_0]
    assert shard.registry.fetch_offsets("missing", None) == {}


def test_offsets_survive_a_restart(shard: GroupShard) -> None:
    commit(shard)

    assert fetch(shard.reopened()) == fetch(shard)


def test_commit_that_cannot_be_written_does_not_count(shard: GroupShard) -> None:
    commit(shard, 1)

    shard.fail_appends = True
    reply = commit(shard, 2)

    assert reply.error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert fetch(shard).offset == 1


def test_metadata_has_a_limit_per_partition(shard: GroupShard) -> None:
    offsets = {
        CLICKS_0: OffsetToCommit(offset=1, metadata="é" * 2_049),
        VIEWS_0: OffsetToCommit(offset=2, metadata="é" * 2_048),
    }

    reply = commit(shard, offsets=offsets)

    assert reply.errors == {CLICKS_0: GroupError.OFFSET_METADATA_TOO_LARGE}
    assert (fetch(shard).offset, fetch(shard, VIEWS_0).offset) == (-1, 2)


def test_member_of_a_classic_group_commits_with_its_generation(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")

    errors = [
        commit(shard, member_id=member_id, generation=1).error,
        commit(shard, member_id=member_id, generation=0).error,
        commit(shard, member_id="stranger", generation=1).error,
        commit(shard).error,
    ]

    assert errors == [
        None,
        GroupError.ILLEGAL_GENERATION,
        GroupError.UNKNOWN_MEMBER_ID,
        GroupError.UNKNOWN_MEMBER_ID,
    ]


def test_commit_with_a_generation_needs_a_group(shard: GroupShard) -> None:
    reply = commit(shard, member_id="m", generation=3)

    assert reply.error is GroupError.ILLEGAL_GENERATION


def test_commit_waits_for_the_end_of_a_rebalance(shard: GroupShard) -> None:
    token = shard.send(
        JoinRequest(
            group_id="g",
            protocol_type="consumer",
            protocols=(MemberProtocol("range", b""),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            require_member_id=False,
        ),
    )
    shard.advance(0)

    reply = commit(shard, member_id=shard.answer(token).member_id, generation=1)

    assert reply.error is GroupError.REBALANCE_IN_PROGRESS


def test_commit_is_a_sign_of_life(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")
    shard.advance(1_799_999)
    commit(shard, member_id=member_id, generation=1)

    shard.advance(1_799_999)

    assert commit(shard, member_id=member_id, generation=1).error is None


def test_member_of_a_consumer_group_commits_with_its_epoch(shard: GroupShard) -> None:
    consumer_beat(shard)

    errors = [
        commit(shard, member_id="m", generation=1).error,
        commit(shard, member_id="m", generation=2).error,
        commit(shard, member_id="stranger", generation=1).error,
        commit(shard, member_id="m", generation=1, knows_epochs=False).error,
    ]

    assert errors == [
        None,
        GroupError.STALE_MEMBER_EPOCH,
        GroupError.UNKNOWN_MEMBER_ID,
        GroupError.UNSUPPORTED_VERSION,
    ]


def test_member_of_a_consumer_group_fetches_with_its_epoch(shard: GroupShard) -> None:
    consumer_beat(shard)

    with pytest.raises(Refusal) as stale:
        fetch(shard, member_id="m", member_epoch=2)
    with pytest.raises(Refusal) as unknown:
        fetch(shard, member_id="stranger", member_epoch=1)

    assert fetch(shard, member_id="m", member_epoch=1) == fetch(shard) == FetchedOffset()
    assert stale.value.error is GroupError.STALE_MEMBER_EPOCH
    assert unknown.value.error is GroupError.UNKNOWN_MEMBER_ID


# Transactions.


def test_transactional_offset_counts_from_its_marker_on(shard: GroupShard) -> None:
    commit(shard, 1)
    commit(shard, 2, producer=PRODUCER)

    before = fetch(shard)
    stable = fetch(shard, require_stable=True)
    shard.end_transaction(PRODUCER.producer_id, commit=True)

    assert before.offset == 1
    assert stable.error is GroupError.UNSTABLE_OFFSET_COMMIT
    assert fetch(shard, require_stable=True).offset == 2


def test_open_transaction_survives_a_restart(shard: GroupShard) -> None:
    commit(shard, 1)
    commit(shard, 2, producer=PRODUCER)

    after = shard.reopened()
    waiting = fetch(after, require_stable=True).error
    after.end_transaction(PRODUCER.producer_id, commit=True)

    assert waiting is GroupError.UNSTABLE_OFFSET_COMMIT
    assert fetch(after).offset == fetch(after.reopened()).offset == 2


def test_transactional_commit_of_a_fenced_member_is_refused(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")

    named = commit(shard, producer=PRODUCER, member_id=member_id, generation=0)
    nameless = commit(shard, producer=PRODUCER)

    assert named.error is GroupError.ILLEGAL_GENERATION
    assert nameless.error is None


# Deleting.


def test_offsets_of_topics_that_are_read_cannot_be_deleted(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")
    for where in (CLICKS_0, VIEWS_0):
        commit(shard, where=where, member_id=member_id, generation=1)

    reply = shard.ask(OffsetDeleteRequest(group_id="g", partitions=[CLICKS_0, VIEWS_0]))

    assert reply.errors == {CLICKS_0: GroupError.GROUP_SUBSCRIBED_TO_TOPIC}
    assert (fetch(shard).offset, fetch(shard, VIEWS_0).offset) == (5, -1)


def test_offsets_of_other_protocols_with_members_cannot_be_deleted(shard: GroupShard) -> None:
    classic_member(shard, protocol_type="connect")

    reply = shard.ask(OffsetDeleteRequest(group_id="g", partitions=[CLICKS_0]))

    assert reply.error is GroupError.NON_EMPTY_GROUP


def test_offsets_of_no_group_cannot_be_deleted(shard: GroupShard) -> None:
    reply = shard.ask(OffsetDeleteRequest(group_id="g", partitions=[CLICKS_0]))

    assert reply.error is GroupError.GROUP_ID_NOT_FOUND


def test_deleted_topic_loses_its_offsets_in_every_group(shard: GroupShard) -> None:
    commit(shard)
    commit(shard, where=VIEWS_0)
    commit(shard, group_id="h")

    shard.run(shard.registry.forget_topics({"clicks"}))

    assert (fetch(shard).offset, fetch(shard, VIEWS_0).offset) == (-1, 5)
    assert shard.registry.group_ids() == ["g"]


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


# Expiry (KIP-211).


def test_offsets_of_a_client_without_membership_expire_after_the_commit(shard: GroupShard) -> None:
    commit(shard)

    shard.advance(7 * DAY_MS - 1)
    shard.sweep()
    kept = fetch(shard).offset
    shard.advance(1)
    shard.sweep()

    assert kept == 5
    assert shard.registry.group_ids() == shard.reopened().registry.group_ids() == []


def test_offsets_of_an_empty_group_expire_after_the_last_member_left(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")
    commit(shard, member_id=member_id, generation=1)
    for _ in range(300):
        shard.advance(1_700_000)
        commit(shard, where=VIEWS_0, member_id=member_id, generation=1)
    leave_classic(shard, member_id)
    shard.advance(7 * DAY_MS - 1)
    shard.sweep()

    kept = fetch(shard).offset
    shard.advance(1)
    shard.sweep()

    assert kept == 5
    assert shard.registry.group_ids() == []


def test_group_with_members_loses_only_topics_it_no_longer_reads() -> None:
    shard = GroupShard(
        GroupConfig(group_initial_rebalance_delay_ms=0, offsets_retention_ms=60_000),
        TopicImage(1, (GroupTopic("clicks", UUID(int=1), 2),)),
    )
    member_id = classic_member(shard, "clicks")
    for where in (CLICKS_0, VIEWS_0):
        commit(shard, where=where, member_id=member_id, generation=1)

    shard.advance(60_000)
    shard.sweep()

    assert (fetch(shard).offset, fetch(shard, VIEWS_0).offset) == (5, -1)


def test_client_may_choose_the_retention(shard: GroupShard) -> None:
    commit(shard, retention_ms=1_000)

    shard.advance(1_000)
    shard.sweep()

    assert fetch(shard).offset == -1


def test_retention_for_ever_is_kept_in_bounds(shard: GroupShard) -> None:
    commit(shard, retention_ms=2**63 - 1)

    assert fetch(shard.reopened()).offset == 5


def test_retention_below_zero_is_the_default(shard: GroupShard) -> None:
    commit(shard, retention_ms=-1)

    shard.sweep()

    assert fetch(shard).offset == 5


def test_offset_inside_a_transaction_does_not_expire(shard: GroupShard) -> None:
    commit(shard)
    commit(shard, 6, producer=PRODUCER)

    shard.advance(7 * DAY_MS)
    shard.sweep()
    shard.end_transaction(PRODUCER.producer_id, commit=True)

    assert fetch(shard).offset == 6


def test_empty_consumer_group_expires_with_its_offsets(shard: GroupShard) -> None:
    consumer_beat(shard)
    commit(shard, member_id="m", generation=1)
    consumer_beat(shard, epoch=-1)

    shard.advance(7 * DAY_MS)
    shard.sweep()

    assert shard.registry.group_ids() == shard.reopened().registry.group_ids() == []


# Both protocols under one roof.


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


def test_group_with_members_stays_with_its_protocol(shard: GroupShard) -> None:
    classic_member(shard, "clicks")
    refused = consumer_beat(shard)

    other = JoinRequest(
        group_id="k",
        protocol_type="consumer",
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


# Listing and describing.


def test_groups_are_listed_by_state_and_type(shard: GroupShard) -> None:
    commit(shard, group_id="simple")
    classic_member(shard, "clicks")
    consumer_beat(shard, group_id="k")

    listed = shard.registry.list_groups()
    stable = shard.registry.list_groups(states=["STABLE"])
    consumers = shard.registry.list_groups(types=["Consumer"])

    assert listed == [
        GroupListing(
            group_id="g", protocol_type="consumer", state="Stable", type=GroupType.CLASSIC
        ),
        GroupListing(
            group_id="k", protocol_type="consumer", state="Stable", type=GroupType.CONSUMER
        ),
        GroupListing(group_id="simple", protocol_type="", state="Empty", type=GroupType.CLASSIC),
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


# The seam.


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

    with pytest.raises(AssertionError, match="settle or reject"):
        shard.registry.handle(request, "second", 0)


def test_group_record_that_kafka_wrote_for_a_share_group_is_stepped_over(
    shard: GroupShard,
) -> None:
    shard.registry.replay(bytes.fromhex("000b000167"), bytes.fromhex("000000000001"))

    assert shard.registry.group_ids() == []


def test_offsets_of_topics_that_went_unnoticed_are_stale(shard: GroupShard) -> None:
    old = {"topic_id": UUID(int=99)}
    for group, where, more in (
        ("kept", CLICKS_0, {"topic_id": UUID(int=1)}),
        ("unnamed", CLICKS_0, {}),
        ("created again", CLICKS_0, old),
        ("gone", TopicPartition("gone", 0), old),
    ):
        offsets = {where: OffsetToCommit(offset=5, **more)}
        shard.ask(CommitRequest(group_id=group, offsets=offsets))

    reopened = shard.reopened()
    reopened.run(reopened.registry.forget_stale())

    assert reopened.registry.group_ids() == ["kept", "unnamed"]
    assert reopened.reopened().registry.group_ids() == ["kept", "unnamed"]
