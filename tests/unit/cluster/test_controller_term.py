"""The controller's term, abandoned partitions and registrations, down to their borders."""

from contextlib import suppress

import pytest

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.election import elect
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.store import node_path
from headrace.cluster.term import CONTROLLER_PATH
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.model.error import StorageError, VersionConflict
from headrace.model.ids import TopicPartition
from testkit.simulation.memory_store import Ensemble, MemoryStore

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def ensemble():
    return Ensemble()


def broker(number):
    return BrokerRecord(broker_id=number, endpoints=(), home=f"home {number}")


def member(ensemble, number):
    store = MemoryStore(ensemble)
    controller = Controller(store)
    controller.join(broker(number))
    return store, controller


def create(controller, replicas):
    controller.reload()
    new = TopicToCreate(name="orders", assignments={0: replicas})
    controller.create_topics([new], defaults=TopicDefaults())


def partition(controller):
    controller.reload()
    return controller.state.topics["orders"].partitions[0]


class TestTerm:
    def test_the_first_to_claim_it_has_it_and_the_second_has_not(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)

        assert one.claim_term(1)
        assert not two.claim_term(2)
        assert one.in_term
        assert not two.in_term
        assert two.controller_id() == 1

    def test_the_one_who_has_it_may_claim_it_again(self, ensemble):
        _, one = member(ensemble, 1)
        one.claim_term(1)

        assert one.claim_term(1)
        one.settle()

    def test_a_claim_whose_reply_was_lost_was_one(self, ensemble):
        store, one = member(ensemble, 1)

        def lost():
            raise StorageError("the answer was lost")

        store.after = lost
        with pytest.raises(StorageError):
            one.claim_term(1)
        store.after = lambda: None

        assert not one.in_term
        assert one.claim_term(1)
        one.settle()

    def test_one_who_loses_the_race_for_it_has_none(self, ensemble):
        _, one = member(ensemble, 1)
        store, two = member(ensemble, 2)
        reads = []

        def before():
            # One is faster, between the read of the holder and the commit.
            reads.append(1)
            if len(reads) == 3:
                store.before = lambda: None
                one.claim_term(1)

        store.before = before

        assert not two.claim_term(2)
        assert not two.in_term

    def test_one_who_had_it_has_none_after_another_took_over(self, ensemble):
        store, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        one.claim_term(1)
        store.close()
        two.claim_term(2)

        assert not one.claim_term(1)
        assert not one.in_term

    def test_without_it_nothing_is_settled(self, ensemble):
        _, one = member(ensemble, 1)
        store, _ = member(ensemble, 2)
        create(one, [2, 1])
        store.close()
        one.reload()

        with pytest.raises(VersionConflict):
            one.settle()
        assert not one.in_term
        assert partition(one).leader == 2

    def test_a_settlement_of_an_older_term_is_fenced(self, ensemble):
        store, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        stays, _ = member(ensemble, 3)
        create(two, [3, 2])
        one.claim_term(1)
        store.close()
        two.claim_term(2)
        stays.close()
        store.expired = False
        one.reload()

        with pytest.raises(VersionConflict):
            one.settle()

    def test_a_broker_that_starts_again_gives_it_up(self, ensemble):
        _, one = member(ensemble, 1)
        one.claim_term(1)

        member(ensemble, 1)

        assert ensemble.nodes.get(CONTROLLER_PATH) is None


class TestJoining:
    def test_a_registration_ends_with_its_session(self, ensemble):
        store, _ = member(ensemble, 1)

        store.close()

        assert node_path(BrokerRecord.KIND, "1") not in ensemble.nodes

    def test_a_registration_that_another_has_just_removed_is_not_counted(self, ensemble):
        store = MemoryStore(ensemble)
        late = Controller(store)
        first, _ = member(ensemble, 1)
        late.catch_up([node_path(BrokerRecord.KIND, "1")])
        assert late.state.brokers[1].home == "home 1"
        first.close()

        late.join(BrokerRecord(broker_id=1, endpoints=(), home="another home"))

        assert late.state.brokers[1].home == "another home"

    def test_what_it_knows_of_its_registration_is_what_the_store_has(self, ensemble):
        _, one = member(ensemble, 1)
        one.take_changes()

        one.catch_up([node_path(BrokerRecord.KIND, "1")])

        assert one.take_changes() == []


class TestLeaving:
    """Neither a start nor a stop may elect a replica that is not in sync."""

    def test_a_broker_that_leaves_alone_stays_in_sync(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(one, [1, 2])
        two.reload()
        two.leave(2)
        assert partition(one).isr == (1,)

        one.leave(1)

        assert partition(one).isr == (1,)
        assert partition(one).leader in (1, NO_LEADER)

    def test_an_ended_broker_is_followed_by_one_in_sync_or_by_none(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(one, [1, 2])
        two.reload()
        two.leave(2)
        two.reload()

        two.remove_ended_broker(two.state.brokers[1])

        assert partition(two).leader in (1, NO_LEADER)
        assert partition(two).isr == (1,)

    def test_a_partition_that_cannot_be_served_goes_to_another(self, ensemble):
        _, one = member(ensemble, 1)
        member(ensemble, 2)
        create(one, [1, 2])

        one.abandon(1, [ORDERS])

        assert partition(one).leader == 2
        assert partition(one).isr == (2,)


class TestIsr:
    def proposal(self, one, epochs):
        topic = one.state.topics["orders"]
        found = topic.partitions[0]
        return IsrProposal(
            partition=ORDERS,
            topic_id=topic.topic_id,
            leader=found.leader,
            leader_epoch=found.leader_epoch,
            partition_epoch=found.partition_epoch,
            isr=epochs,
        )

    def shrunk(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(one, [1, 2])
        two.reload()
        two.leave(2)
        one.reload()
        return one, two

    def test_a_replica_joins_with_the_epoch_it_fetches_with(self, ensemble):
        one, _ = self.shrunk(ensemble)

        one.alter_isr([self.proposal(one, {1: -1, 2: 0})])

        assert set(partition(one).isr) == {1, 2}

    def test_one_that_was_started_again_since_does_not(self, ensemble):
        one, _ = self.shrunk(ensemble)
        member(ensemble, 2)
        stale = self.proposal(one, {1: -1, 2: 0})

        with suppress(VersionConflict):
            one.alter_isr([stale])

        assert partition(one).isr == (1,)


def test_catching_up_reads_what_others_wrote(ensemble):
    _, one = member(ensemble, 1)
    _, two = member(ensemble, 2)
    create(two, [1, 2])
    assert "orders" not in one.state.topics

    one.catch_up([node_path(TopicRecord.KIND, "orders")])

    assert "orders" in one.state.topics


def test_a_leader_that_is_alive_and_not_in_sync_is_replaced():
    strange = PartitionRecord(
        replicas=(1, 2, 3), leader=1, isr=(2, 3), leader_epoch=5, partition_epoch=9
    )

    elected = elect(strange, {1, 2, 3}, unclean=False)

    assert (elected.leader, elected.leader_epoch) == (2, 6)
