from dataclasses import replace
from uuid import UUID

import pytest

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import (
    JoinRequest,
)
from headrace.groups.classic.state import ClassicState
from headrace.groups.config import GroupConfig
from headrace.groups.effect import Producer
from headrace.groups.error import GroupError, Refusal
from headrace.groups.offset.message import (
    CommitRequest,
    FetchedOffset,
    OffsetDeleteRequest,
    OffsetToCommit,
)
from headrace.groups.record import MemberProtocol
from headrace.groups.topic import GroupTopic, TopicImage
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from testkit.simulation.group_member import (
    CLICKS_0,
    VIEWS_0,
    classic_member,
    commit,
    consumer_beat,
    fetch,
    leave_classic,
)
from testkit.simulation.group_shard import GroupShard

PRODUCER = Producer(ProducerId(7), ProducerEpoch(0))
DAY_MS = 24 * 60 * 60 * 1000


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


def test_an_empty_group_has_no_generation_to_commit_with(shard: GroupShard) -> None:
    commit(shard)
    assert commit(shard, generation=0).error is GroupError.UNKNOWN_MEMBER_ID


def test_the_first_generation_needs_a_group_too(shard: GroupShard) -> None:
    assert commit(shard, member_id="m", generation=0).error is GroupError.ILLEGAL_GENERATION


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
    half_named = commit(shard, producer=PRODUCER, generation=0)
    nameless = commit(shard, producer=PRODUCER)

    assert named.error is GroupError.ILLEGAL_GENERATION
    assert half_named.error is GroupError.UNKNOWN_MEMBER_ID
    assert nameless.error is None


def test_a_producer_that_names_no_member_commits_in_a_consumer_group(shard: GroupShard) -> None:
    """KAFKA-18060: producers before KIP-447 cannot name one."""
    consumer_beat(shard)

    named = commit(shard, producer=PRODUCER, member_id="m", generation=0)
    half_named = commit(shard, producer=PRODUCER, generation=-1, member_id="stranger")
    with_instance = commit(shard, producer=PRODUCER, instance_id="i")
    nameless = commit(shard, producer=PRODUCER)
    shard.end_transaction(PRODUCER.producer_id, commit=True)

    assert named.error is GroupError.STALE_MEMBER_EPOCH
    assert half_named.error is GroupError.UNKNOWN_MEMBER_ID
    assert with_instance.error is GroupError.UNKNOWN_MEMBER_ID
    assert nameless.error is None
    assert fetch(shard).offset == 5
    assert commit(shard).error is GroupError.UNKNOWN_MEMBER_ID


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

    shard.run(shard.registry.forget_topics({"clicks": UUID(int=1)}))

    assert (fetch(shard).offset, fetch(shard, VIEWS_0).offset) == (-1, 5)
    assert shard.registry.group_ids() == ["g"]


def test_the_deletion_of_a_topic_looks_at_no_offset_of_others(shard: GroupShard) -> None:
    """Each went through all offsets of the shard, on the event loop."""
    for number in range(20):
        commit(shard, group_id=f"g{number}", where=VIEWS_0)
    commit(shard, where=CLICKS_0)
    looked_at: list[TopicPartition] = []
    offsets = shard.registry._table.offsets
    topic_ids = offsets.topic_ids

    def counted(group_id: str, where: TopicPartition) -> set[UUID]:
        looked_at.append(where)
        return topic_ids(group_id, where)

    offsets.topic_ids = counted  # type: ignore[method-assign]
    shard.run(shard.registry.forget_topics({"clicks": UUID(int=1)}))

    assert looked_at == [CLICKS_0]
    assert fetch(shard, CLICKS_0).offset == -1


def test_a_topic_that_was_created_again_keeps_its_offsets(shard: GroupShard) -> None:
    """The broker hears late of the deletion of the first one."""
    new = OffsetToCommit(offset=5, topic_id=UUID(int=2))
    shard.ask(CommitRequest(group_id="g", offsets={CLICKS_0: new}))
    old = OffsetToCommit(offset=6, topic_id=UUID(int=1))
    shard.ask(CommitRequest(group_id="h", offsets={CLICKS_0: old}))

    shard.run(shard.registry.forget_topics({"clicks": UUID(int=1)}))

    assert shard.registry.group_ids() == ["g"]


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
    assert reopened.registry.suspect_topics() == {"clicks", "gone"}
    reopened.run(reopened.registry.forget_stale({"clicks": UUID(int=1), "gone": None}))

    assert reopened.registry.group_ids() == ["kept", "unnamed"]
    assert reopened.reopened().registry.group_ids() == ["kept", "unnamed"]


def test_offsets_of_a_topic_that_the_broker_does_not_know_yet_stay(shard: GroupShard) -> None:
    offsets = {TopicPartition("new", 0): OffsetToCommit(offset=5, topic_id=UUID(int=7))}
    shard.ask(CommitRequest(group_id="g", offsets=offsets))

    reopened = shard.reopened()
    assert reopened.registry.suspect_topics() == {"new"}
    reopened.run(reopened.registry.forget_stale({"new": UUID(int=7)}))

    assert reopened.registry.group_ids() == ["g"]


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


def test_an_empty_group_remembers_over_a_restart_since_when(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")
    commit(shard, member_id=member_id, generation=1)
    shard.advance(1_000)
    leave_classic(shard, member_id)
    shard = shard.reopened()

    shard.advance(7 * DAY_MS - 1)
    shard.sweep()
    kept = fetch(shard).offset
    shard.advance(1)
    shard.sweep()

    assert kept == 5
    assert shard.registry.group_ids() == []


def test_a_group_that_is_in_use_does_not_expire_without_offsets(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")
    shard.sweep()
    assert commit(shard, member_id=member_id, generation=1).error is None


def test_an_id_that_was_given_out_keeps_its_group(shard: GroupShard) -> None:
    request = JoinRequest(
        group_id="g",
        client_id="c",
        protocol_type="consumer",
        protocols=(MemberProtocol("range", b""),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        require_member_id=True,
    )
    given = shard.ask(request)
    shard.sweep()
    assert given.generation == -1

    token = shard.send(replace(request, member_id=given.member_id))
    shard.advance(0)

    assert shard.answer(token).error is None


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


@pytest.mark.parametrize("retention_ms", [0, 1_000])
def test_offsets_are_kept_as_long_as_the_client_chose_and_no_longer(
    shard: GroupShard, retention_ms: int
) -> None:
    commit(shard, retention_ms=retention_ms)
    commit(shard, where=VIEWS_0, retention_ms=retention_ms + 1)

    shard.advance(retention_ms)
    shard.sweep()

    assert (fetch(shard).offset, fetch(shard, VIEWS_0).offset) == (-1, 5)


def test_a_group_in_a_rebalance_keeps_its_offsets(shard: GroupShard) -> None:
    """What it will read is not known yet."""
    member_id = classic_member(shard, "clicks")
    commit(shard, where=VIEWS_0, member_id=member_id, generation=1, retention_ms=0)
    group = shard.group("g")
    assert isinstance(group, ClassicGroup)
    group.state = ClassicState.COMPLETING_REBALANCE

    shard.sweep()

    assert fetch(shard, VIEWS_0).offset == 5


def test_a_group_whose_subscription_cannot_be_read_keeps_its_offsets(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks", protocol_type="connect")
    commit(shard, where=VIEWS_0, member_id=member_id, generation=1, retention_ms=0)

    shard.sweep()

    assert fetch(shard, VIEWS_0).offset == 5


def test_a_commit_in_a_transaction_is_no_sign_of_life(shard: GroupShard) -> None:
    member_id = classic_member(shard, "clicks")
    shard.advance(1_799_999)
    commit(shard, member_id=member_id, generation=1, producer=PRODUCER)

    shard.advance(1)

    reply = commit(shard, member_id=member_id, generation=1)
    assert reply.error is GroupError.UNKNOWN_MEMBER_ID


def test_a_group_with_an_open_transaction_stays(shard: GroupShard) -> None:
    leave_classic(shard, classic_member(shard, "clicks"))
    commit(shard, producer=PRODUCER)

    shard.sweep()
    shard.end_transaction(PRODUCER.producer_id, commit=True)

    assert [each.protocol_type for each in shard.registry.list_groups()] == ["consumer"]


def test_stable_offsets_are_asked_for(shard: GroupShard) -> None:
    commit(shard)
    commit(shard, 6, VIEWS_0, producer=PRODUCER)

    assert fetch(shard, require_stable=True).offset == 5
    assert fetch(shard, VIEWS_0, require_stable=True).error is GroupError.UNSTABLE_OFFSET_COMMIT
    assert fetch(shard, VIEWS_0) == FetchedOffset()
    everything = shard.registry.fetch_offsets("g", None, require_stable=True)
    assert list(everything) == [CLICKS_0, VIEWS_0]


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
