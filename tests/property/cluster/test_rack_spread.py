"""Replicas of a partition never share a machine while another machine has none of them.

Holds wherever the cluster or `headrace cluster` places replicas: new topics, added partitions,
`rebalance` from any assignment, and `decommission`.
"""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.address import Address
from headrace.client.admin.replica_plan import (
    absent_replicas,
    current,
    decommission,
    rebalance,
)
from headrace.client.network.metadata import (
    BrokerMetadata,
    Metadata,
    PartitionMetadata,
    TopicMetadata,
)
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.cluster.state import ClusterState, Put
from headrace.cluster.topic_command import (
    NewPartitions,
    TopicDefaults,
    TopicToCreate,
    create_partitions,
    create_topics,
)
from headrace.model.error import InvalidArgument
from headrace.model.ids import BrokerId

MACHINES = st.dictionaries(
    st.integers(0, 40), st.sampled_from(["m1", "m2", "m3", None]), min_size=2, max_size=9
)
FEW_PARTITIONS = st.integers(1, 12)


def machine(racks, broker):
    """A broker without a rack stands alone."""
    return racks[broker] or broker


def assert_spread(racks, assignments):
    machines = len({machine(racks, each) for each in racks})
    for replicas in assignments:
        assert len(set(replicas)) == len(replicas)
        used = {machine(racks, each) for each in replicas}
        assert len(used) == min(len(replicas), machines)


def cluster_state(racks):
    state = ClusterState()
    for number, rack in racks.items():
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092 + number)
        record = BrokerRecord(broker_id=BrokerId(number), endpoints=(endpoint,), rack=rack)
        state.apply(Put(record))
    return state


def machines_of(racks, assignments):
    """On how many machines each partition is, also with brokers that are away."""
    return [len({machine(racks, each) for each in replicas}) for replicas in assignments]


def metadata(racks, assignments, away=()):
    partitions = {
        index: PartitionMetadata(index, each[0], 0, tuple(each), tuple(each), (), None)
        for index, each in enumerate(assignments)
    }
    brokers = {
        number: BrokerMetadata(number, Address("127.0.0.1", 9000 + number), rack)
        for number, rack in racks.items()
        if number not in away
    }
    topic = TopicMetadata("orders", None, False, partitions, None)
    return Metadata("c", min(brokers, default=-1), brokers, {"orders": topic})


@settings(deadline=None, max_examples=100)
@given(MACHINES, FEW_PARTITIONS, FEW_PARTITIONS, st.data())
def test_new_topics_and_added_partitions(racks, partitions, added, data):
    factor = data.draw(st.integers(1, len(racks)))
    state = cluster_state(racks)
    wanted = TopicToCreate(name="orders", partitions=partitions, replication_factor=factor)
    created = create_topics(state, [wanted], defaults=TopicDefaults()).outcomes["orders"]
    state.apply(Put(created))
    growth = NewPartitions(name="orders", total=partitions + added)

    grown = create_partitions(state, [growth]).outcomes["orders"]

    assert len(grown.partitions) == partitions + added
    assert_spread(racks, [each.replicas for each in grown.partitions])


@settings(deadline=None, max_examples=50)
@given(MACHINES, FEW_PARTITIONS)
def test_topics_that_take_the_defaults(racks, partitions):
    defaults = TopicDefaults(partitions=partitions, replication_factor=min(3, len(racks)))

    plan = create_topics(cluster_state(racks), [TopicToCreate(name="orders")], defaults=defaults)

    assert_spread(racks, [each.replicas for each in plan.outcomes["orders"].partitions])


@st.composite
def assigned_clusters(draw):
    racks = draw(MACHINES)
    factor = draw(st.integers(1, len(racks)))
    chosen = st.permutations(sorted(racks)).map(lambda each: list(each[:factor]))
    before = metadata(racks, draw(st.lists(chosen, min_size=1, max_size=12)))
    return racks, factor, before


@settings(deadline=None, max_examples=150)
@given(assigned_clusters())
def test_rebalance_spreads_any_assignment(cluster):
    racks, factor, before = cluster

    after = {**current(before), **rebalance(before)}

    assert_spread(racks, after.values())
    assert all(len(replicas) == factor for replicas in after.values())


@settings(deadline=None, max_examples=100)
@given(assigned_clusters())
def test_what_rebalance_has_spread_it_leaves_alone(cluster):
    racks, _, before = cluster
    after = metadata(racks, list({**current(before), **rebalance(before)}.values()))

    again = rebalance(after)

    moved = {name for name in again if sorted(again[name]) != sorted(current(after)[name])}
    assert moved == set()


@settings(deadline=None, max_examples=100)
@given(assigned_clusters(), st.data())
def test_decommission_keeps_partitions_spread(cluster, data):
    racks, factor, before = cluster
    leaving = data.draw(st.sampled_from(sorted(racks)))
    if factor == len(racks):
        return  # refused: too few brokers would be left
    spread = metadata(racks, list({**current(before), **rebalance(before)}.values()))

    after = {**current(spread), **decommission(spread, leaving)}

    left = {number: rack for number, rack in racks.items() if number != leaving}
    assert_spread(left, after.values())


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4), st.integers(2, 4), st.integers(1, 24))
def test_machines_of_the_same_size_end_even(brokers, machines, partitions):
    """Each machine has as many brokers: then racks stand in the way of no even load."""
    racks = {10 * m + b: f"m{m}" for m in range(machines) for b in range(brokers)}
    first, second = sorted(racks)[0], sorted(racks)[brokers]  # on two machines
    before = metadata(racks, [[first, second]] * partitions)

    after = {**current(before), **rebalance(before)}

    assert_spread(racks, after.values())
    load = Counter({each: 0 for each in racks})
    load.update(each for replicas in after.values() for each in replicas)
    assert max(load.values()) - min(load.values()) <= 1


@settings(deadline=None, max_examples=150)
@given(assigned_clusters(), st.data())
def test_no_plan_moves_a_partition_onto_one_machine_while_a_broker_is_away(cluster, data):
    racks, factor, before = cluster
    spread = list({**current(before), **rebalance(before)}.values())
    away = data.draw(st.sets(st.sampled_from(sorted(racks)), min_size=1, max_size=len(racks) - 1))
    partial = metadata(racks, spread, away)

    plan = rebalance(partial)

    assert not away & {each for replicas in plan.values() for each in replicas}
    assert not plan.keys() & absent_replicas(partial).keys()
    after = list({**current(partial), **plan}.values())
    assert [len(set(replicas)) for replicas in after] == [factor] * len(after)
    assert machines_of(racks, after) == machines_of(racks, spread)


@settings(deadline=None, max_examples=150)
@given(assigned_clusters(), st.data())
def test_decommission_while_a_broker_is_away_spreads_or_refuses(cluster, data):
    racks, _, before = cluster
    spread = list({**current(before), **rebalance(before)}.values())
    away = data.draw(st.sampled_from(sorted(racks)))
    leaving = data.draw(st.sampled_from(sorted(racks)))
    partial = metadata(racks, spread, {away})

    try:
        plan = decommission(partial, leaving)
    except InvalidArgument:
        return

    left = {number: rack for number, rack in racks.items() if number not in (away, leaving)}
    assert_spread(left, plan.values())
