"""Proposals of leaders, elections on request, and moves."""

from dataclasses import replace

import pytest

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.partition_command import (
    IsrProposal,
    alter_isr,
    elect_leaders,
    reassign,
    settle_topics,
)
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import ClusterState, Put
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.model.ids import TopicPartition

ALIVE = {1, 2, 3, 4}
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = random_topic_id()


@pytest.fixture
def state():
    state = ClusterState()
    for number in sorted(ALIVE):
        state.apply(Put(BrokerRecord(broker_id=number, endpoints=(), epoch=7)))
    put(state, PartitionRecord(replicas=(1, 2, 3), leader=1, isr=(1, 2), leader_epoch=5))
    return state


def put(state, partition):
    state.apply(Put(TopicRecord(name="orders", topic_id=TOPIC_ID, partitions=(partition,))))


def apply(state, plan):
    for change in plan.changes:
        state.apply(change)
    return state.topics["orders"].partitions[0]


def proposal(isr, **changed):
    fields = {
        "partition": ORDERS,
        "topic_id": TOPIC_ID,
        "leader": 1,
        "leader_epoch": 5,
        "partition_epoch": 0,
        "isr": isr,
    }
    return IsrProposal(**(fields | changed))


class TestAlterIsr:
    def test_a_follower_joins(self, state):
        partition = apply(state, alter_isr(state, [proposal({1: -1, 2: -1, 3: 7})]))

        assert partition.isr == (1, 2, 3)
        assert (partition.leader_epoch, partition.partition_epoch) == (5, 1)

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ({"leader": 2}, ClusterError.FENCED_LEADER_EPOCH),
            ({"leader_epoch": 4}, ClusterError.FENCED_LEADER_EPOCH),
            ({"partition_epoch": 1}, ClusterError.INVALID_UPDATE_VERSION),
            ({"topic_id": random_topic_id()}, ClusterError.UNKNOWN_TOPIC_ID),
            ({"isr": {1: -1, 3: 6}}, ClusterError.INELIGIBLE_REPLICA),
            ({"isr": {1: -1, 4: 7}}, ClusterError.INELIGIBLE_REPLICA),
            ({"isr": {2: -1}}, ClusterError.INVALID_REQUEST),
        ],
    )
    def test_what_does_not_fit_is_refused(self, state, wrong, error):
        plan = alter_isr(state, [proposal(**({"isr": {1: -1}} | wrong))])

        outcome = plan.outcomes[ORDERS]
        assert isinstance(outcome, Rejection)
        assert outcome.error is error
        assert plan.changes == []


class TestElectLeaders:
    def test_the_preferred_replica_leads(self, state):
        put(state, PartitionRecord(replicas=(1, 2), leader=2, isr=(1, 2), leader_epoch=5))

        assert apply(state, elect_leaders(state, [ORDERS], ALIVE)).leader == 1

    def test_where_it_leads_already_nothing_is_done(self, state):
        outcome = elect_leaders(state, [ORDERS], ALIVE).outcomes[ORDERS]

        assert outcome.error is ClusterError.ELECTION_NOT_NEEDED

    def test_all_means_those_where_something_happens(self, state):
        assert elect_leaders(state, None, ALIVE).outcomes == {}

    def test_an_unclean_election_is_for_partitions_without_a_leader(self, state):
        put(state, PartitionRecord(replicas=(1, 2), leader=-1, isr=(1,), leader_epoch=5))

        plan = elect_leaders(state, [ORDERS], {2}, unclean=True)

        assert apply(state, plan).leader == 2


class TestReassign:
    def test_a_move_ends_when_the_new_replicas_are_in_sync(self, state):
        moving = apply(state, reassign(state, {ORDERS: [4, 2]}, ALIVE))
        assert (moving.replicas, moving.adding, moving.removing) == ((4, 2, 1, 3), (4,), (1, 3))
        assert settle_topics(state, ALIVE) == []

        put(state, replace(moving, isr=(4, 2, 1)))
        (change,) = settle_topics(state, ALIVE)

        moved = change.entity.partitions[0]
        assert (moved.replicas, moved.isr, moved.leader, moved.moving) == ((4, 2), (4, 2), 4, False)
        assert moved.leader_epoch > 5

    def test_a_replica_that_leaves_ends_the_leader_epoch_though_the_leader_stays(self, state):
        before = state.topics["orders"].partitions[0]

        moved = apply(state, reassign(state, {ORDERS: [2, 1]}, ALIVE))

        assert moved.leader == before.leader
        assert moved.leader_epoch == before.leader_epoch + 1

    def test_a_change_of_order_is_done_at_once(self, state):
        moved = apply(state, reassign(state, {ORDERS: [2, 1]}, ALIVE))

        assert (moved.replicas, moved.leader, moved.moving) == ((2, 1), 1, False)

    def test_a_move_can_be_given_up(self, state):
        apply(state, reassign(state, {ORDERS: [4, 2]}, ALIVE))

        back = apply(state, reassign(state, {ORDERS: None}, ALIVE))

        assert (sorted(back.replicas), back.moving) == ([1, 2, 3], False)

    def test_it_cannot_be_given_up_when_only_the_new_ones_have_everything(self, state):
        put(state, PartitionRecord(replicas=(4, 1), leader=4, isr=(4,), adding=(4,), removing=(1,)))

        outcome = reassign(state, {ORDERS: None}, ALIVE).outcomes[ORDERS]

        assert outcome.error is ClusterError.INVALID_REPLICA_ASSIGNMENT

    @pytest.mark.parametrize("target", [[], [2, 2], [9]])
    def test_a_target_is_running_brokers_each_once(self, state, target):
        outcome = reassign(state, {ORDERS: target}, ALIVE).outcomes[ORDERS]

        assert outcome.error is ClusterError.INVALID_REPLICA_ASSIGNMENT
