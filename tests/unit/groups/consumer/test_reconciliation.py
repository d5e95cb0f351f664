from typing import Any
from uuid import UUID

from headrace.groups.consumer.reconciliation import reconcile
from headrace.groups.record import CurrentAssignment, MemberState
from headrace.groups.topic import TopicIdPartition

TOPIC = UUID(int=1)
OTHER = UUID(int=2)


def parts(*numbers: int, topic: UUID = TOPIC) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic, number) for number in numbers)


def member(**changes: Any) -> CurrentAssignment:
    fields: dict[str, Any] = {
        "member_epoch": 5,
        "previous_member_epoch": 4,
        "state": MemberState.STABLE,
        "assigned": parts(0, 1),
        "pending_revocation": frozenset(),
        **changes,
    }
    return CurrentAssignment(**fields)


def step(current: CurrentAssignment, **changes: Any) -> CurrentAssignment:
    fields: dict[str, Any] = {
        "target_epoch": 6,
        "target": parts(0, 1),
        "subscribed": {TOPIC, OTHER},
        "owned": None,
        "held_by_others": frozenset(),
        "subscription_changed": False,
        **changes,
    }
    return reconcile(current, **fields)


def test_member_at_the_target_stays() -> None:
    current = member()

    assert step(current, target_epoch=5) is current


def test_member_with_nothing_to_give_up_moves_to_the_target_at_once() -> None:
    moved = step(member(), target=parts(0, 1, 2))

    assert moved == member(member_epoch=6, previous_member_epoch=5, assigned=parts(0, 1, 2))


def test_partitions_are_revoked_before_any_is_assigned() -> None:
    moved = step(member(), target=parts(1, 2))

    assert moved.state is MemberState.UNREVOKED_PARTITIONS
    assert moved.member_epoch == 5
    assert (moved.assigned, moved.pending_revocation) == (parts(1), parts(0))


def test_member_waits_until_it_reports_that_it_gave_up() -> None:
    waiting = step(member(), target=parts(1, 2))

    silent = step(waiting, target=parts(1, 2), owned=None)
    holding = step(waiting, target=parts(1, 2), owned=parts(0, 1))
    released = step(waiting, target=parts(1, 2), owned=parts(1))

    assert silent is waiting
    assert holding is waiting
    assert released.state is MemberState.STABLE
    assert (released.member_epoch, released.assigned) == (6, parts(1, 2))


def test_partition_held_by_another_member_is_not_assigned() -> None:
    moved = step(member(), target=parts(0, 1, 2, 3), held_by_others=parts(2))

    assert moved.state is MemberState.UNRELEASED_PARTITIONS
    assert (moved.member_epoch, moved.assigned) == (6, parts(0, 1, 3))


def test_unreleased_partition_comes_when_it_is_free() -> None:
    waiting = step(member(), target=parts(0, 1, 2), held_by_others=parts(2))

    moved = step(waiting, target=parts(0, 1, 2))

    assert moved.state is MemberState.STABLE
    assert moved.assigned == parts(0, 1, 2)


def test_unsubscribed_topic_is_taken_away_whatever_the_target_says() -> None:
    current = member(assigned=parts(0) | parts(0, topic=OTHER))

    moved = step(
        current,
        target=parts(0) | parts(0, topic=OTHER),
        subscribed={TOPIC},
        subscription_changed=True,
    )

    assert moved.pending_revocation == parts(0, topic=OTHER)


def test_unsubscribed_topic_that_the_member_has_given_up_is_gone_at_once() -> None:
    current = member(assigned=parts(0) | parts(0, topic=OTHER))

    moved = step(
        current, target_epoch=5, subscribed={TOPIC}, subscription_changed=True, owned=parts(0)
    )

    assert moved == member(previous_member_epoch=5, assigned=parts(0))


def test_unsubscribing_while_revoking_adds_to_what_must_go() -> None:
    current = member(
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=parts(1) | parts(0, topic=OTHER),
        pending_revocation=parts(0),
    )

    moved = step(current, subscribed={TOPIC}, subscription_changed=True)

    assert moved.assigned == parts(1)
    assert moved.pending_revocation == parts(0) | parts(0, topic=OTHER)


def test_partition_given_back_while_revoking_is_assigned_again() -> None:
    waiting = step(member(), target=parts(1))

    moved = step(waiting, target_epoch=7, target=parts(0, 1), owned=parts(1))

    assert (moved.member_epoch, moved.assigned) == (7, parts(0, 1))
