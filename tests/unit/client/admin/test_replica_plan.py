"""Plans move few replicas and leave the brokers balanced."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.address import Address
from headrace.client.admin.replica_admin import Move
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
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition


def cluster(brokers, replicas, racks=None):
    return Metadata(
        cluster_id="c",
        controller=brokers[0],
        brokers={
            each: BrokerMetadata(each, Address("127.0.0.1", 9000 + each), (racks or {}).get(each))
            for each in brokers
        },
        topics={
            "orders": TopicMetadata(
                "orders",
                None,
                False,
                {
                    index: PartitionMetadata(index, each[0], 0, tuple(each), tuple(each), (), None)
                    for index, each in enumerate(replicas)
                },
                None,
            )
        },
    )


RACKS = {1: "a", 2: "b", 3: "b"}
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVES = {ORDERS_0: Move((3, 2, 1), (3,), (1,))}


class TestBrokersThatAreAway:
    """Brokers 1 on rack a, 2 and 3 on rack b; 3 is not running, so that no one says its rack."""

    def test_nothing_is_moved_beside_one(self):
        # Moved to [2, 3] both replicas would be on rack b.
        away = cluster([1, 2], [[1, 3], [1, 3], [1, 3]], RACKS)

        assert rebalance(away) == {}
        assert set(absent_replicas(away).values()) == {3}

    def test_partitions_without_it_are_still_balanced(self):
        away = cluster([1, 2], [[1, 3], [1], [1], [1]], RACKS)

        plan = rebalance(away)

        assert TopicPartition("orders", 0) not in plan
        assert list(plan.values()) == [[2], [2]]

    def test_no_broker_is_emptied_beside_one(self):
        away = cluster([1, 2], [[1, 3]], RACKS)

        with pytest.raises(InvalidArgument, match=r"broker 3, which is not running.*Start it"):
            decommission(away, 1)

    def test_what_is_on_it_is_moved_off_it(self):
        away = cluster([1, 2], [[1, 3], [3, 1], [1, 2]], RACKS)

        assert decommission(away, 3) == {ORDERS_0: [1, 2], ORDERS_1: [2, 1]}

    def test_what_only_it_has_cannot_be_moved(self):
        with pytest.raises(InvalidArgument, match="all its records only on broker 3"):
            decommission(cluster([1, 2], [[3]], RACKS), 3)


class TestMovesUnderWay:
    """Of partition 0 the replica on broker 1 moves to broker 3."""

    def test_a_partition_counts_where_it_moves_to(self):
        moving = cluster([1, 2, 3], [[3, 2, 1], [2, 1], [1, 3]])

        assert current(moving, MOVES)[ORDERS_0] == [3, 2]
        assert rebalance(moving, MOVES) == {}

    def test_it_does_not_keep_the_replica_that_leaves(self):
        moving = cluster([1, 2, 3], [[3, 2, 1]])

        assert decommission(moving, 3, MOVES) == {ORDERS_0: [1, 2]}
        assert decommission(moving, 1, MOVES) == {}


class TestDecommission:
    def test_only_what_lies_on_the_broker_moves(self):
        plan = decommission(cluster([1, 2, 3, 4], [[1, 2], [2, 3], [3, 1]]), 1)

        assert plan == {TopicPartition("orders", 0): [4, 2], TopicPartition("orders", 2): [3, 4]}

    def test_a_rack_that_is_free_is_preferred(self):
        racks = {1: "a", 2: "b", 3: "a", 4: "b"}

        plan = decommission(cluster([1, 2, 3, 4], [[1, 2], [4, 3]], racks), 1)

        assert plan == {TopicPartition("orders", 0): [3, 2]}

    def test_too_few_brokers_are_named(self):
        with pytest.raises(InvalidArgument, match="add a broker first"):
            decommission(cluster([1, 2], [[1, 2]]), 1)


class TestRebalance:
    def test_a_new_broker_gets_its_share(self):
        plan = rebalance(cluster([1, 2, 3], [[1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1]]))

        moved = Counter(each for replicas in plan.values() for each in replicas)
        assert moved[3] == 4

    def test_what_is_even_stays(self):
        assert rebalance(cluster([1, 2, 3], [[1, 2], [2, 3], [3, 1]])) == {}

    @settings(deadline=None, max_examples=50)
    @given(st.data())
    def test_it_ends_even(self, data):
        brokers = list(range(1, data.draw(st.integers(2, 6)) + 1))
        factor = data.draw(st.integers(1, len(brokers)))
        chosen = st.permutations(brokers).map(lambda each: each[:factor])
        before = cluster(brokers, data.draw(st.lists(chosen, min_size=1, max_size=12)))

        after = {**current(before), **rebalance(before)}

        load = Counter({each: 0 for each in brokers})
        load.update(each for replicas in after.values() for each in replicas)
        assert max(load.values()) - min(load.values()) <= 1
        assert all(len(set(replicas)) == factor for replicas in after.values())
