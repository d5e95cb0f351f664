"""`LoadLeveler` ends where the plainest algorithm does, without its work.

The plain one looks at all replicas of all brokers again before every move.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.admin.broker_loads import BrokerLoads
from headrace.client.admin.load_leveler import LoadLeveler
from headrace.model.ids import TopicPartition


def plain_step(plan, racks, loads):
    """Move one replica off the fullest broker that can give one away; return whether it could."""
    for fullest in sorted(racks, key=lambda each: (-loads[each], each)):
        targets = [each for each in sorted(racks) if loads[each] + 1 < loads[fullest]]
        for name in sorted(plan):
            if fullest not in plan[name]:
                continue
            others = [each for each in plan[name] if each != fullest]
            used = Counter(racks[each] for each in others)
            free = [
                each
                for each in targets
                if each not in others and used[racks[each]] <= used[racks[fullest]]
            ]
            if free:
                to = min(free, key=lambda each: (used[racks[each]], loads[each], each))
                plan[name] = [to if each == fullest else each for each in plan[name]]
                loads[fullest] -= 1
                loads[to] += 1
                return True
    return False


def levelled_plainly(plan, racks):
    plan = {name: list(replicas) for name, replicas in plan.items()}
    loads = Counter({each: 0 for each in racks})
    loads.update(each for replicas in plan.values() for each in replicas)
    while plain_step(plan, racks, loads):
        pass
    return plan


def levelled(plan, racks):
    plan = {name: list(replicas) for name, replicas in plan.items()}
    LoadLeveler(plan, BrokerLoads(racks, plan.values())).run()
    return plan


@st.composite
def assigned(draw):
    """Brokers on racks of uneven sizes, and partitions that prefer some of the brokers."""
    brokers = draw(st.integers(2, 9))
    racks = {each: draw(st.sampled_from(["a", "b", "c", each])) for each in range(brokers)}
    factor = draw(st.integers(1, min(4, brokers)))
    crowded = draw(st.integers(factor, brokers))  # the others are empty
    chosen = st.permutations(range(crowded)).map(lambda each: list(each[:factor]))
    partitions = draw(st.lists(chosen, min_size=1, max_size=25))
    return {TopicPartition("orders", at): each for at, each in enumerate(partitions)}, racks


@settings(deadline=None, max_examples=300)
@given(assigned())
def test_it_ends_as_the_plain_algorithm_does(cluster):
    plan, racks = cluster

    assert levelled(plan, racks) == levelled_plainly(plan, racks)


@settings(deadline=None, max_examples=150)
@given(assigned())
def test_no_partition_gives_up_a_rack_or_a_replica(cluster):
    plan, racks = cluster

    for name, replicas in levelled(plan, racks).items():
        before = plan[name]
        assert len(set(replicas)) == len(before)
        assert len({racks[each] for each in replicas}) >= len({racks[each] for each in before})


class CountingLoads(BrokerLoads):
    placed = 0

    def place(self, others, **limits):
        self.placed += 1
        return super().place(others, **limits)


@pytest.mark.parametrize("racks_of_others", [1, 99])
def test_a_full_broker_that_is_stuck_is_not_looked_at_before_every_move(racks_of_others):
    """Broker 0 stands alone on a rack and has a replica of everything; broker 1 has the others."""
    partitions, brokers = 10_000, 100
    racks = {each: f"m{each % racks_of_others}" for each in range(1, brokers)} | {0: "alone"}
    plan = {TopicPartition("orders", each): [0, 1] for each in range(partitions)}
    loads = CountingLoads(racks, plan.values())

    LoadLeveler(plan, loads).run()

    assert loads.placed < 6 * partitions  # and not partitions times moves
    spread = [loads[each] for each in range(1, brokers)]
    assert max(spread) - min(spread) <= 1
