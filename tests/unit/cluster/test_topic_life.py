"""A topic that was deleted and created again, and a broker that missed both."""

import pytest

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.controller import Controller
from headrace.cluster.store import DeleteNode
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.cluster.topic_life import KIND, life_path
from headrace.model.config_code import ConfigOperation
from testkit.simulation.memory_store import Ensemble, MemoryStore

DEFAULTS = TopicDefaults(partitions=1, replication_factor=1)
KEEP_LONGER = [ConfigAlteration("retention.ms", ConfigOperation.SET, "12345")]


@pytest.fixture
def ensemble():
    return Ensemble()


def controller_of(ensemble):
    return Controller(MemoryStore(ensemble))


def create(controller):
    plan = controller.create_topics([TopicToCreate(name="orders")], defaults=DEFAULTS)
    assert plan.changes
    return controller.state.topics["orders"]


@pytest.fixture
def ours(ensemble):
    controller = controller_of(ensemble)
    controller.join(BrokerRecord(broker_id=1, endpoints=(), home="home 1"))
    return controller


def test_a_broker_that_missed_a_deletion_does_not_bring_the_topic_back(ours, ensemble):
    first = create(ours)
    late = controller_of(ensemble)
    ours.delete_topics(["orders"])
    second = create(ours)

    rejection = late.alter_topic_configs("orders", KEEP_LONGER)

    assert rejection is None
    stored = controller_of(ensemble).state.topics["orders"]
    assert stored.topic_id == second.topic_id != first.topic_id
    assert dict(stored.configs) == {"retention.ms": "12345"}


def test_a_broker_that_missed_a_deletion_does_not_delete_the_next_topic(ours, ensemble):
    create(ours)
    late = controller_of(ensemble)
    ours.delete_topics(["orders"])
    second = create(ours)

    late.catch_up(["/topics/orders"])
    late.alter_topic_configs("orders", KEEP_LONGER)

    assert controller_of(ensemble).state.topics["orders"].topic_id == second.topic_id


def test_a_topic_of_an_earlier_release_gets_its_node_with_its_next_change(ours, ensemble):
    topic = create(ours)
    store = MemoryStore(ensemble)
    store.commit([DeleteNode(life_path(topic))])
    upgraded = controller_of(ensemble)

    assert upgraded.alter_topic_configs("orders", KEEP_LONGER) is None

    assert [node.path for node in store.scan(KIND)] == [life_path(topic)]
    assert upgraded.alter_topic_configs("orders", KEEP_LONGER) is None


def test_the_node_goes_with_the_topic(ours, ensemble):
    create(ours)

    ours.delete_topics(["orders"])

    assert MemoryStore(ensemble).scan(KIND) == []
