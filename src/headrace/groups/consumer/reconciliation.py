"""How one KIP-848 member moves from what it holds to what it should hold.

    Stable --must give up--> UnrevokedPartitions --has given up--> (next step)
    Stable, or the next step --all free--> Stable at the target's epoch
                             --some still held by others--> UnreleasedPartitions, same epoch

Rule 1: revoke before assign. A member that must give up partitions gets none before it has shown,
        by the partitions it reports, that it no longer holds them; its epoch stays behind.
Rule 2: a partition is assigned only when no other member holds it, be it only pending revocation.
        So at every epoch a partition has at most one owner.
Rule 3: a member's epoch moves to the target's epoch when it has nothing left to give up, not when
        it has got everything: then it can commit and go on with what it has.
Rule 4: topics that the member no longer subscribes to are taken away at once, target or not.
"""

from collections.abc import Set
from dataclasses import replace
from uuid import UUID

from headrace.groups.record import CurrentAssignment, MemberState
from headrace.groups.topic import TopicIdPartition

Partitions = frozenset[TopicIdPartition]


def reconcile(
    current: CurrentAssignment,
    *,
    target_epoch: int,
    target: Partitions,
    subscribed: Set[UUID],
    owned: Partitions | None,
    held_by_others: Set[TopicIdPartition],
    subscription_changed: bool,
) -> CurrentAssignment:
    """Return the next step of a member, or `current` itself when it cannot move.

    Args:
        owned: what the member reported to hold, or None when it did not say: then we must assume
            that it holds all it ever got.
        held_by_others: assigned to other members, or waiting for them to give it up.
    """
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        waits = _still_owns(owned, current.pending_revocation)
    else:
        waits = current.state is MemberState.STABLE and current.member_epoch == target_epoch
    if waits:
        return _drop_unsubscribed(current, subscribed, owned) if subscription_changed else current
    desired = frozenset(item for item in target if item.topic_id in subscribed)
    return _advance(current, target_epoch, desired, owned, held_by_others)


def _advance(
    current: CurrentAssignment,
    target_epoch: int,
    desired: Partitions,
    owned: Partitions | None,
    held_by_others: Set[TopicIdPartition],
) -> CurrentAssignment:
    kept = current.assigned & desired
    revoked = current.assigned - desired
    if revoked and _still_owns(owned, revoked):
        return replace(
            current,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_member_epoch=current.member_epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    unreleased = (desired - kept) & held_by_others
    return CurrentAssignment(
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        member_epoch=target_epoch,
        previous_member_epoch=current.member_epoch,
        assigned=desired - unreleased,
        pending_revocation=frozenset(),
    )


def _drop_unsubscribed(
    current: CurrentAssignment, subscribed: Set[UUID], owned: Partitions | None
) -> CurrentAssignment:
    unsubscribed = frozenset(item for item in current.assigned if item.topic_id not in subscribed)
    if not unsubscribed:
        return current
    pending = current.pending_revocation | unsubscribed
    if _still_owns(owned, pending):
        return replace(
            current,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_member_epoch=current.member_epoch,
            assigned=current.assigned - unsubscribed,
            pending_revocation=pending,
        )
    return replace(
        current,
        previous_member_epoch=current.member_epoch,
        assigned=current.assigned - unsubscribed,
    )


def _still_owns(owned: Partitions | None, partitions: Partitions) -> bool:
    return owned is None or not owned.isdisjoint(partitions)
