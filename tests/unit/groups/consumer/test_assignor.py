from collections.abc import Iterable, Iterator
from uuid import UUID

from headrace.groups.consumer.assignor import (
    Assignment,
    Subscriber,
    _balance_once,
    assign_range,
    assign_uniform,
)
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


def test_uniform_moves_a_partition_from_two_to_none() -> None:
    before = {"m": parts(A, 0, 1), "n": frozenset[TopicIdPartition]()}

    plan = assign_uniform(members({"m": [A], "n": [A, B]}, before), topics(a=2))

    assert [len(plan[id_]) for id_ in "mn"] == [1, 1]


def test_uniform_goes_on_while_one_move_makes_room_for_another() -> None:
    """What m gets of b makes it the one that must give a."""
    before = {"m": parts(A, 0), "n": parts(B, 0, 1, 2)}

    plan = assign_uniform(members({"m": [A, B], "n": [A, B], "o": [A]}, before), topics(a=1, b=3))

    assert [len(plan[id_]) for id_ in "mno"] == [1, 2, 1]


def test_uniform_takes_a_topic_without_partitions() -> None:
    plan = assign_uniform(members({"m": [A], "n": [A, B]}), topics(a=0, b=1))

    assert plan == {"m": frozenset(), "n": parts(B, 0)}


def test_uniform_forgets_the_first_partition_that_is_gone() -> None:
    before = {"m": parts(A, 2), "n": parts(A, 0)}

    plan = assign_uniform(members({"m": [A], "n": [A]}, before), topics(a=2))

    assert plan == {"m": parts(A, 1), "n": parts(A, 0)}


def test_uniform_settles_a_partition_that_two_members_had() -> None:
    both = {"m": parts(A, 0), "n": parts(A, 0)}

    plan = assign_uniform(members({"m": [A], "n": [A]}, both), topics(a=2))

    assert plan == {"m": parts(A, 0), "n": parts(A, 1)}


def test_uniform_leaves_the_odd_one_where_it_is() -> None:
    before = {"m": parts(A, 0), "n": parts(A, 1, 2)}

    assert assign_uniform(members({"m": [A], "n": [A]}, before), topics(a=3)) == before


def test_range_puts_static_members_first_in_the_order_of_their_instances() -> None:
    """So that a restart, which gives a new member id, moves nothing."""
    joined = {
        id_: Subscriber(member_id=id_, instance_id=instance, topics=frozenset([A]))
        for id_, instance in {"n": None, "m": None, "y": "2", "z": "1"}.items()
    }

    plan = assign_range(joined, topics(a=4))

    assert plan == {"z": parts(A, 0), "y": parts(A, 1), "m": parts(A, 2), "n": parts(A, 3)}


class Counted(list[str]):
    """Subscribers of topics, which count how often someone goes through them."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


def test_balancing_goes_through_the_subscribers_once_per_move_and_not_per_topic() -> None:
    ids = [UUID(int=number) for number in range(100)]
    known = {id_: GroupTopic(f"t{id_.int:03}", id_, 1) for id_ in ids}
    subscribers = Counted(["m", "n"])
    owned = {
        "m": {TopicIdPartition(id_, 0) for id_ in ids[:53]},
        "n": {TopicIdPartition(id_, 0) for id_ in ids[53:]},
    }

    assert _balance_once(owned, dict.fromkeys(ids, subscribers), known)
    assert [len(owned[member_id]) for member_id in ("m", "n")] == [50, 50]
    assert subscribers.walks == 3 + 1
