"""Plans move few replicas and leave the brokers balanced."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.address import Address
from headrace.client.admin.replica_plan import current, decommission, rebalance
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
