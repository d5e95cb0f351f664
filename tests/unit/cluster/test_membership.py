"""Joining, leaving and the controller's term: two brokers on one store in memory."""

import pytest

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.rejection import ClusterError
from headrace.cluster.store import CheckNode
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.model.error import BrokerIdTaken, VersionConflict
from headrace.model.ids import TopicPartition
from testkit.simulation.cluster_store_contract import ClusterStoreContract
from testkit.simulation.memory_store import Ensemble, MemoryStore

ORDERS = TopicPartition("orders", 0)


class TestMemoryStore(ClusterStoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore(Ensemble())


@pytest.fixture
def ensemble():
    return Ensemble()


def broker(number, home=None):
    return BrokerRecord(broker_id=number, endpoints=(), home=home or f"home {number}")


def member(ensemble, number, home=None):
    store = MemoryStore(ensemble)
    controller = Controller(store)
    controller.join(broker(number, home))
    return store, controller


def create(controller):
    controller.reload()
    defaults = TopicDefaults(partitions=1, replication_factor=2)
    controller.create_topics([TopicToCreate(name="orders")], defaults=defaults)


def partition(controller):
    controller.reload()
    return controller.state.topics["orders"].partitions[0]


class TestJoining:
    def test_every_registration_has_a_higher_epoch(self, ensemble):
        _, first = member(ensemble, 1)
        _, second = member(ensemble, 1)

        assert first.state.brokers[1].epoch == 0
        assert second.state.brokers[1].epoch == 1

    def test_another_brokers_id_cannot_be_used(self, ensemble):
        member(ensemble, 1)

        with pytest.raises(BrokerIdTaken, match="runs already"):
            member(ensemble, 1, home="elsewhere")

    def test_whoever_starts_again_first_hands_over_what_it_led(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(one)
        led_by = partition(one).leader

        member(ensemble, led_by)

        after = partition(two)
        assert after.leader == ({1, 2} - {led_by}).pop()
        assert after.isr == (after.leader,)
        assert after.leader_epoch == 1


class TestDead:
    def test_a_broker_whose_process_is_gone_is_replaced_before_its_session_ends(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(one)
        led_by = partition(one).leader
        other = {1: two, 2: one}[led_by]
        other.reload()

        other.remove_ended_broker(other.state.brokers[led_by])

        after = partition(other)
        assert after.leader != led_by
        assert after.isr == (after.leader,)

    def test_one_that_was_started_again_since_is_not(self, ensemble):
        member(ensemble, 1)
        _, two = member(ensemble, 2)
        dead = broker(1)
        member(ensemble, 1)
        create(two)
        before = partition(two)

        two.remove_ended_broker(dead)

        assert partition(two) == before


class TestWordOnItsWay:
    """A command must not be refused for what another broker has changed, unheard of as yet."""

    def test_a_broker_that_has_just_joined_gets_replicas(self, ensemble):
        _, one = member(ensemble, 1)
        member(ensemble, 2)

        plan = one.create_topics(
            [TopicToCreate(name="orders")],
            defaults=TopicDefaults(partitions=1, replication_factor=2),
        )

        assert sorted(plan.outcomes["orders"].partitions[0].replicas) == [1, 2]

    def test_a_topic_that_has_just_been_created_elsewhere_can_be_deleted(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(two)

        plan = one.delete_topics(["orders"])

        assert isinstance(plan.outcomes["orders"], TopicRecord)

    def test_a_topic_that_was_created_again_elsewhere_is_not_deleted_by_its_old_id(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(two)
        partition(one)  # reads it
        old = one.state.topics["orders"]
        two.delete_topics(["orders"])
        create(two)

        plan = one.delete_topics(["orders"], ids={"orders": old.topic_id})

        assert plan.outcomes["orders"].error is ClusterError.UNKNOWN_TOPIC_ID
        two.reload()
        assert two.state.topics["orders"].topic_id != old.topic_id

    def test_what_is_still_wrong_then_is_refused(self, ensemble):
        _, one = member(ensemble, 1)

        plan = one.delete_topics(["orders"])

        assert plan.outcomes["orders"].error is ClusterError.UNKNOWN_TOPIC_OR_PARTITION


class TestIsr:
    def test_a_follower_that_was_started_again_does_not_join_on_its_old_word(self, ensemble):
        _, one = member(ensemble, 1)
        member(ensemble, 2)
        create(one)
        follower = ({1, 2} - {partition(one).leader}).pop()
        one.leave(follower)
        before = partition(one)
        fetched_with = one.state.brokers[follower].epoch
        member(ensemble, follower)

        plan = one.alter_isr(
            [
                IsrProposal(
                    partition=ORDERS,
                    topic_id=one.state.topics["orders"].topic_id,
                    leader=before.leader,
                    leader_epoch=before.leader_epoch,
                    partition_epoch=before.partition_epoch,
                    isr={before.leader: -1, follower: fetched_with},
                )
            ]
        )

        assert plan.outcomes[ORDERS].error is ClusterError.INELIGIBLE_REPLICA

    def test_a_broker_that_joins_many_partitions_is_checked_once(self, ensemble):
        """One check per partition would make a commit that ZooKeeper does not take."""
        store, one = member(ensemble, 1)
        member(ensemble, 2)
        one.reload()
        many = TopicToCreate(name="orders", assignments={each: [1, 2] for each in range(100)})
        one.create_topics([many], defaults=TopicDefaults())
        one.leave(2)
        topic, checks = one.state.topics["orders"], []
        commit = store.commit

        def counted(writes):
            checks.extend(each for each in writes if each.path == "/incarnations/2")
            return commit(writes)

        store.commit = counted
        one.alter_isr(
            [
                IsrProposal(
                    partition=TopicPartition("orders", number),
                    topic_id=topic.topic_id,
                    leader=1,
                    leader_epoch=each.leader_epoch,
                    partition_epoch=each.partition_epoch,
                    isr={1: -1, 2: one.state.brokers[2].epoch},
                )
                for number, each in enumerate(topic.partitions)
            ]
        )

        assert checks == [CheckNode("/incarnations/2", 0)]
        assert all(each.isr == (1, 2) for each in one.state.topics["orders"].partitions)


class TestTerm:
    def test_one_broker_is_the_controller(self, ensemble):
        _, one = member(ensemble, 1)
        _, two = member(ensemble, 2)

        assert one.claim_term(1)
        assert not two.claim_term(2)
        assert two.controller_id() == 1

    def test_the_next_one_fences_the_one_before(self, ensemble):
        store, one = member(ensemble, 1)
        _, two = member(ensemble, 2)
        create(two)
        one.reload()
        one.claim_term(1)
        ensemble.expire(store)
        assert two.claim_term(2)
        two.reload()

        # The old one still counts all brokers but 2 as alive.
        del one.state.brokers[2]
        with pytest.raises(VersionConflict):
            for _ in range(2):
                one.settle()
                del one.state.brokers[2]
