"""Proposals of leaders, elections on request, and moves."""

from dataclasses import replace

import pytest

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.partition_command import (
    IsrProposal,
    abandon,
    alter_isr,
    elect_leaders,
    reassign,
    settle_topics,
)
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import ClusterState, Put, Remove
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
            ({"isr": {1: -1, 3: 0}}, ClusterError.INELIGIBLE_REPLICA),
        ],
    )
    def test_what_does_not_fit_is_refused(self, state, wrong, error):
        plan = alter_isr(state, [proposal(**({"isr": {1: -1}} | wrong))])

        outcome = plan.outcomes[ORDERS]
        assert isinstance(outcome, Rejection)
        assert outcome.error is error
        assert plan.changes == []

    def test_the_order_of_the_replicas_stays(self, state):
        partition = apply(state, alter_isr(state, [proposal({3: -1, 2: -1, 1: -1})]))

        assert partition.isr == (1, 2, 3)

    def test_a_broker_that_is_gone_may_stay_but_not_come(self, state):
        for gone in (2, 3):
            state.apply(Remove(state.brokers[gone]))

        [stays] = alter_isr(state, [proposal({1: -1, 2: -1})]).outcomes.values()
        [comes] = alter_isr(state, [proposal({1: -1, 3: -1})]).outcomes.values()

        assert stays.isr == (1, 2)
        assert comes.error is ClusterError.INELIGIBLE_REPLICA

    @pytest.mark.parametrize(
        "name",
        [TopicPartition("orders", 1), TopicPartition("orders", -1), TopicPartition("else", 0)],
    )
    def test_a_partition_that_is_not_there_harms_no_other(self, state, name):
        plan = alter_isr(state, [proposal({1: -1}, partition=name), proposal({1: -1})])

        assert plan.outcomes[name].error is ClusterError.UNKNOWN_TOPIC_OR_PARTITION
        assert plan.outcomes[ORDERS].isr == (1,)

    def test_the_second_proposal_sees_the_first(self, state):
        plan = alter_isr(state, [proposal({1: -1}), proposal({1: -1, 3: 7}, partition_epoch=1)])

        assert apply(state, plan).isr == (1, 3)
        assert len(plan.changes) == 1

    def test_a_proposal_of_what_is_there_changes_nothing(self, state):
        assert alter_isr(state, [proposal({1: -1, 2: -1})]).changes == []

    def test_the_other_partitions_of_the_topic_stay(self, state):
        one = state.topics["orders"].partitions[0]
        two = replace(one, isr=(1, 2, 3))
        state.apply(Put(replace(state.topics["orders"], partitions=(one, two))))

        apply(state, alter_isr(state, [proposal({1: -1})]))

        assert state.topics["orders"].partitions[1] == two


class TestSettle:
    @pytest.mark.parametrize(
        ("configs", "default", "leader"),
        [
            ({}, False, -1),
            ({}, True, 3),
            ({"unclean.leader.election.enable": "TRUE"}, False, 3),
            ({"unclean.leader.election.enable": "false"}, True, -1),
        ],
    )
    def test_a_topic_says_whether_any_replica_may_lead(self, state, configs, default, leader):
        state.apply(Put(replace(state.topics["orders"], configs=configs)))

        (change,) = settle_topics(state, {3}, unclean_default=default)

        assert change.entity.partitions[0].leader == leader


class TestAbandon:
    def test_another_replica_in_sync_leads(self, state):
        missing = TopicPartition("else", 0)

        partition = apply(state, abandon(state, [missing, ORDERS], 1, {2, 3, 4}))

        assert (partition.leader, partition.isr) == (2, (2,))

    def test_the_last_one_in_sync_stays(self, state):
        put(state, PartitionRecord(replicas=(1, 2), leader=1, isr=(1,)))

        plan = abandon(state, [ORDERS], 1, {2, 3, 4})

        assert (plan.changes, plan.outcomes) == ([], {})

    def test_a_partition_that_has_no_one_in_sync_stays(self, state):
        put(state, PartitionRecord(replicas=(1, 3), leader=3, isr=(3,)))

        assert abandon(state, [ORDERS], 1, {2, 4}).changes == []


class TestElectLeaders:
    def test_all_finds_those_that_can_move(self, state):
        one = PartitionRecord(replicas=(1, 2), leader=2, isr=(1, 2))
        state.apply(Put(replace(state.topics["orders"], partitions=(one, one))))

        plan = elect_leaders(state, None, ALIVE)

        assert {name.partition: each.leader for name, each in plan.outcomes.items()} == {0: 1, 1: 1}

    def test_a_partition_that_is_not_there_is_unknown(self, state):
        name = TopicPartition("else", 0)

        outcome = elect_leaders(state, [name], ALIVE).outcomes[name]

        assert outcome.error is ClusterError.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize("isr", [(2,), (1, 2)])
    def test_a_preferred_replica_that_cannot_lead_is_named(self, state, isr):
        put(state, PartitionRecord(replicas=(1, 2), leader=2, isr=isr))

        outcome = elect_leaders(state, [ORDERS], {2, 3}).outcomes[ORDERS]

        assert outcome.error is ClusterError.PREFERRED_LEADER_NOT_AVAILABLE

    @pytest.mark.parametrize(
        ("leader", "alive", "error"),
        [
            (1, {1, 2}, ClusterError.ELECTION_NOT_NEEDED),
            (-1, {3, 4}, ClusterError.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        ],
    )
    def test_an_unclean_election_needs_a_reason_and_a_replica(self, state, leader, alive, error):
        put(state, PartitionRecord(replicas=(1, 2), leader=leader, isr=(1,)))

        outcome = elect_leaders(state, [ORDERS], alive, unclean=True).outcomes[ORDERS]

        assert outcome.error is error

    def test_a_leader_that_is_gone_is_none(self, state):
        put(state, PartitionRecord(replicas=(1, 2), leader=1, isr=(1,)))

        assert apply(state, elect_leaders(state, [ORDERS], {2}, unclean=True)).leader == 2

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

    def test_what_was_added_leaves_with_the_move(self, state):
        put(
            state,
            PartitionRecord(replicas=(4, 1, 2), leader=4, isr=(4, 1), adding=(4,), removing=(2,)),
        )

        back = apply(state, reassign(state, {ORDERS: None}, ALIVE))

        assert (back.replicas, back.isr, back.leader) == ((1, 2), (1,), 1)

    def test_without_a_move_nothing_can_be_given_up(self, state):
        outcome = reassign(state, {ORDERS: None}, ALIVE).outcomes[ORDERS]

        assert outcome.error is ClusterError.NO_REASSIGNMENT_IN_PROGRESS

    def test_another_move_begins_where_the_first_began(self, state):
        apply(state, reassign(state, {ORDERS: [4, 2]}, ALIVE))

        moving = apply(state, reassign(state, {ORDERS: [4, 1]}, ALIVE))

        assert (moving.adding, sorted(moving.removing)) == ((4,), [2, 3])
        assert (moving.replicas[:2], sorted(moving.replicas)) == ((4, 1), [1, 2, 3, 4])

    def test_another_move_cannot_drop_the_only_one_in_sync(self, state):
        put(state, PartitionRecord(replicas=(4, 1), leader=4, isr=(4,), adding=(4,), removing=(1,)))

        outcome = reassign(state, {ORDERS: [2]}, ALIVE).outcomes[ORDERS]

        assert outcome.error is ClusterError.INVALID_REPLICA_ASSIGNMENT

    def test_a_move_does_not_end_while_the_new_ones_are_not_running(self, state):
        moving = PartitionRecord(
            replicas=(4, 1), leader=1, isr=(4, 1), adding=(4,), removing=(1,), leader_epoch=5
        )
        put(state, moving)

        (change,) = settle_topics(state, {1, 2})

        assert change.entity.partitions[0].moving

    @pytest.mark.parametrize("target", [[4, 2], [1, 2, 3, 4]])
    def test_the_replication_factor_stays_if_the_request_says_so(self, state, target):
        plan = reassign(state, {ORDERS: target}, ALIVE, factor_may_change=False)

        assert plan.outcomes[ORDERS].error is ClusterError.INVALID_REPLICATION_FACTOR
        assert plan.changes == []
        allowed = reassign(state, {ORDERS: target}, ALIVE)
        assert isinstance(allowed.outcomes[ORDERS], PartitionRecord)

    def test_the_factor_that_a_move_will_leave_counts(self, state):
        apply(state, reassign(state, {ORDERS: [4]}, ALIVE))

        def outcome(*target):
            plan = reassign(state, {ORDERS: target}, ALIVE, factor_may_change=False)
            return plan.outcomes[ORDERS]

        assert isinstance(outcome(2), PartitionRecord)
        assert outcome(1, 4).error is ClusterError.INVALID_REPLICATION_FACTOR

    def test_a_move_can_be_given_up_whatever_the_factor(self, state):
        before = state.topics["orders"].partitions[0]
        apply(state, reassign(state, {ORDERS: [4]}, ALIVE))

        back = apply(state, reassign(state, {ORDERS: None}, ALIVE, factor_may_change=False))

        assert back.replicas == before.replicas

    def test_a_partition_that_is_not_there_cannot_move(self, state):
        name = TopicPartition("else", 0)

        outcome = reassign(state, {name: [1]}, ALIVE).outcomes[name]

        assert outcome.error is ClusterError.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize("target", [[], [2, 2], [9]])
    def test_a_target_is_running_brokers_each_once(self, state, target):
        outcome = reassign(state, {ORDERS: target}, ALIVE).outcomes[ORDERS]

        assert outcome.error is ClusterError.INVALID_REPLICA_ASSIGNMENT
