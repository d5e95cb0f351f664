"""The promises on top of `placement`."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.placement import place
from headrace.model.error import InvalidArgument

CLUSTERS = st.dictionaries(
    st.integers(0, 50), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=150)
@given(racks=CLUSTERS, partitions=st.integers(0, 60), start=st.integers(0, 40), data=st.data())
def test_every_placement_keeps_its_promises(racks, partitions, start, data):
    factor = data.draw(st.integers(1, len(racks)))

    placed = place(racks, partitions=partitions, replication_factor=factor, start=start)

    distinct_racks = len({rack or f"#{broker}" for broker, rack in racks.items()})
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(racks)
        spread = {racks[broker] or f"#{broker}" for broker in replicas}
        assert len(spread) == min(factor, distinct_racks)
    leads = Counter(replicas[0] for replicas in placed)
    counts = [leads[broker] for broker in racks]
    assert max(counts) - min(counts) <= 1


def test_one_broker_has_everything():
    assert place({1: None}, partitions=3, replication_factor=1) == [(1,), (1,), (1,)]


def test_the_followers_of_one_leader_vary():
    placed = place(dict.fromkeys(range(4)), partitions=12, replication_factor=2)

    assert {second for first, second in placed if first == 0} == {1, 2, 3}


@pytest.mark.parametrize("factor", [0, 3])
def test_there_must_be_a_broker_for_each_replica(factor):
    with pytest.raises(InvalidArgument, match="need as many brokers"):
        place({1: None, 2: None}, partitions=1, replication_factor=factor)


def test_neighbours_on_the_ring_are_on_different_racks():
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}

    leaders = [replicas[0] for replicas in place(racks, partitions=5, replication_factor=1)]

    assert leaders == [1, 3, 2, 4, 5]


def test_after_all_followers_had_their_turn_it_begins_again():
    brokers = dict.fromkeys(range(4))
    rounds = [
        place(brokers, partitions=4, replication_factor=3, start=4 * each) for each in range(5)
    ]

    assert rounds[0] == rounds[3] == [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1)]
    assert rounds[1] == rounds[4]
    assert [first[0] for first in rounds[:3]] == [(0, 1, 2), (0, 2, 3), (0, 3, 1)]


def test_a_second_replica_on_a_rack_comes_only_when_all_racks_have_one():
    racks = {1: "a", 2: "a", 3: "a", 4: "b"}

    for replicas in place(racks, partitions=8, replication_factor=2):
        assert 4 in replicas


def test_replicas_are_divided_evenly_between_the_racks():
    racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}

    for replicas in place(racks, partitions=12, replication_factor=4):
        assert Counter(racks[broker] for broker in replicas) == {"a": 2, "b": 2}


@pytest.mark.parametrize(("partitions", "start"), [(-1, 0), (1, -1)])
def test_partitions_and_start_are_counts(partitions, start):
    with pytest.raises(InvalidArgument, match="cannot be placed"):
        place({1: None}, partitions=partitions, replication_factor=1, start=start)


def test_no_partitions_have_no_places():
    assert place({1: None}, partitions=0, replication_factor=1) == []
