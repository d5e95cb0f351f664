from collections.abc import Iterable
from uuid import UUID

from headrace.groups.consumer.assignor import Assignment, Subscriber, assign_range, assign_uniform
from headrace.groups.topic import GroupTopic, TopicIdPartition

A, B = UUID(int=1), UUID(int=2)


def topics(**counts: int) -> dict[UUID, GroupTopic]:
    ids = {"a": A, "b": B}
    return {ids[name]: GroupTopic(name, ids[name], count) for name, count in counts.items()}


def members(
    wishes: dict[str, Iterable[UUID]], before: Assignment | None = None
) -> dict[str, Subscriber]:
    return {
        member_id: Subscriber(
            member_id=member_id,
            topics=frozenset(wanted),
            previous=(before or {}).get(member_id, frozenset()),
        )
        for member_id, wanted in wishes.items()
    }


def parts(topic_id: UUID, *numbers: int) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic_id, number) for number in numbers)


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions a member lost that was there before and after."""
    return sum(len(before[id_] - after[id_]) for id_ in before.keys() & after.keys())


def test_uniform_gives_equal_shares() -> None:
    plan = assign_uniform(members({"m": [A], "n": [A], "o": [A]}), topics(a=7))

    assert sorted(len(share) for share in plan.values()) == [2, 2, 3]


def test_uniform_moves_only_what_a_new_member_needs() -> None:
    before = assign_uniform(members({"m": [A, B], "n": [A, B]}), topics(a=4, b=4))

    after = assign_uniform(
        members({"m": [A, B], "n": [A, B], "o": [A, B]}, before), topics(a=4, b=4)
    )

    assert moved(before, after) == 2
    assert len(after["o"]) == 2


def test_uniform_moves_nothing_from_those_who_stay() -> None:
    before = assign_uniform(members({"m": [A], "n": [A], "o": [A]}), topics(a=9))

    after = assign_uniform(members({"m": [A], "n": [A]}, before), topics(a=9))

    assert moved(before, after) == 0


def test_uniform_respects_different_subscriptions() -> None:
    plan = assign_uniform(members({"m": [A], "n": [A, B]}), topics(a=4, b=4))

    assert plan == {"m": parts(A, 0, 1, 2, 3), "n": parts(B, 0, 1, 2, 3)}


def test_uniform_moves_partitions_from_the_loaded_to_the_idle() -> None:
    before = {"m": parts(A, 0, 1, 2, 3), "n": frozenset[TopicIdPartition]()}

    plan = assign_uniform(members({"m": [A], "n": [A, B]}, before), topics(a=4, b=1))

    assert sorted(len(share) for share in plan.values()) == [2, 3]


def test_uniform_forgets_partitions_that_are_gone() -> None:
    before = {"m": parts(A, 0, 9) | parts(B, 0)}

    plan = assign_uniform(members({"m": [A, B]}, before), topics(a=2))

    assert plan == {"m": parts(A, 0, 1)}


def test_range_gives_contiguous_ranges_and_the_rest_to_the_first() -> None:
    plan = assign_range(members({"m": [A], "n": [A]}), topics(a=5))

    assert plan == {"m": parts(A, 0, 1, 2), "n": parts(A, 3, 4)}


def test_range_gives_equal_topics_the_same_ranges() -> None:
    plan = assign_range(members({"m": [A, B], "n": [A, B]}), topics(a=4, b=4))

    assert plan["m"] == parts(A, 0, 1) | parts(B, 0, 1)


def test_range_keeps_the_members_in_their_order() -> None:
    before = {"z": parts(A, 0, 1), "y": parts(A, 2, 3)}

    plan = assign_range(members({"x": [A], "y": [A], "z": [A]}, before), topics(a=6))

    assert plan == {"z": parts(A, 0, 1), "y": parts(A, 2, 3), "x": parts(A, 4, 5)}


def test_range_with_more_members_than_partitions_leaves_some_idle() -> None:
    plan = assign_range(members({"m": [A], "n": [A], "o": [A]}), topics(a=2))

    assert [len(plan[id_]) for id_ in "mno"] == [1, 1, 0]


def test_nobody_subscribed_is_an_empty_plan() -> None:
    assert assign_uniform(members({"m": []}), topics(a=2)) == {"m": frozenset()}
    assert assign_range(members({"m": []}), topics(a=2)) == {"m": frozenset()}
