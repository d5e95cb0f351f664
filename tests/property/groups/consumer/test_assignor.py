from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.groups.consumer.assignor import ASSIGNORS, Assignment, Subscriber, assign_uniform
from headrace.groups.topic import GroupTopic, TopicIdPartition

IDS = [UUID(int=number) for number in range(1, 6)]

topic_counts = st.dictionaries(st.sampled_from(IDS), st.integers(1, 12), max_size=5)
wishes = st.dictionaries(
    st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from(IDS)), min_size=1, max_size=8
)


def topics(counts: dict[UUID, int]) -> dict[UUID, GroupTopic]:
    return {id_: GroupTopic(f"t{id_.int}", id_, count) for id_, count in counts.items()}


def subscribers(wanted: dict[str, frozenset[UUID]], before: Assignment) -> dict[str, Subscriber]:
    return {
        id_: Subscriber(member_id=id_, topics=ids, previous=before.get(id_, frozenset()))
        for id_, ids in wanted.items()
    }


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(deadline=None, max_examples=150)
@given(history=st.lists(st.tuples(wishes, topic_counts), min_size=1, max_size=4))
def test_every_partition_has_exactly_one_subscriber_for_owner(
    name: str, history: list[tuple[dict[str, frozenset[UUID]], dict[UUID, int]]]
) -> None:
    plan: Assignment = {}
    for wanted, counts in history:
        plan = ASSIGNORS[name](subscribers(wanted, plan), topics(counts))

        given_out = [partition for share in plan.values() for partition in share]
        expected = {
            TopicIdPartition(id_, number)
            for id_, count in counts.items()
            if any(id_ in ids for ids in wanted.values())
            for number in range(count)
        }
        assert len(given_out) == len(expected)
        assert set(given_out) == expected
        assert all(
            partition.topic_id in wanted[id_] for id_, share in plan.items() for partition in share
        )


@settings(deadline=None, max_examples=150)
@given(history=st.lists(st.tuples(wishes, topic_counts), min_size=1, max_size=4))
def test_uniform_is_balanced_among_the_subscribers_of_a_topic(
    history: list[tuple[dict[str, frozenset[UUID]], dict[UUID, int]]],
) -> None:
    plan: Assignment = {}
    for wanted, counts in history:
        plan = assign_uniform(subscribers(wanted, plan), topics(counts))

        for topic_id in counts:
            takers = [id_ for id_, ids in wanted.items() if topic_id in ids]
            least = min((len(plan[id_]) for id_ in takers), default=0)
            for id_ in takers:
                if any(partition.topic_id == topic_id for partition in plan[id_]):
                    assert len(plan[id_]) - least <= 1


@settings(deadline=None, max_examples=150)
@given(wanted=wishes, counts=topic_counts)
def test_uniform_leaves_a_plan_alone_when_nothing_has_changed(
    wanted: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    plan = assign_uniform(subscribers(wanted, {}), topics(counts))

    assert assign_uniform(subscribers(wanted, plan), topics(counts)) == plan


@settings(deadline=None, max_examples=150)
@given(
    names=st.sets(st.sampled_from("abcdefgh"), min_size=2, max_size=8),
    counts=topic_counts,
)
def test_uniform_moves_no_more_than_balance_asks_for(
    names: set[str], counts: dict[UUID, int]
) -> None:
    everything = frozenset(counts)
    first, *others = sorted(names)
    before = assign_uniform(subscribers(dict.fromkeys(others, everything), {}), topics(counts))

    after = assign_uniform(subscribers(dict.fromkeys(names, everything), before), topics(counts))

    lost = sum(len(before[id_] - after[id_]) for id_ in others)
    assert lost == len(after[first])
