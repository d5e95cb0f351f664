"""One topic whose record is too large for the store must not stop what concerns the others."""

from dataclasses import replace

import pytest

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.command_runner import CommandRunner
from headrace.cluster.controller import Controller
from headrace.cluster.entity import encode_entity, entity_path
from headrace.cluster.entity_size import MAX_TOPIC_BYTES
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Put
from headrace.cluster.store import MAX_NODE_BYTES, UpdateNode
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.model.error import InvalidArgument, StorageError
from headrace.model.ids import BrokerId, TopicPartition
from testkit.simulation.memory_store import Ensemble, MemoryStore

FULL, ORDERS = TopicPartition("a-full", 0), TopicPartition("orders", 0)
KEY = "leader.replication.throttled.replicas"


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble()


def member(ensemble: Ensemble, number: int) -> tuple[MemoryStore, Controller]:
    store = MemoryStore(ensemble)
    controller = Controller(store)
    controller.join(BrokerRecord(broker_id=BrokerId(number), endpoints=(), home=f"home {number}"))
    return store, controller


def create(controller: Controller, *replicas: int, size: int = MAX_NODE_BYTES) -> None:
    """Create two topics on these brokers, and fill the node of one to a size."""
    controller.reload()
    controller.create_topics(
        [TopicToCreate(name=name, assignments={0: replicas}) for name in ("a-full", "orders")],
        defaults=TopicDefaults(),
    )
    record = replace(controller.state.topics["a-full"], configs={KEY: ""})
    full = replace(record, configs={KEY: "1" * (size - len(encode_entity(record)))})
    other = MemoryStore(controller._store.ensemble)  # type: ignore[attr-defined]
    other.commit([UpdateNode(entity_path(full), encode_entity(full))])
    controller.reload()


def partition(controller: Controller, name: TopicPartition) -> PartitionRecord:
    controller.reload()
    return controller.state.topics[name.topic].partitions[name.partition]


def test_the_others_get_their_leaders(ensemble: Ensemble) -> None:
    _, one = member(ensemble, 1)
    store, _ = member(ensemble, 2)
    create(one, 2)
    assert one.claim_term(BrokerId(1))
    store.close()
    one.reload()

    one.settle()

    assert partition(one, ORDERS).leader == NO_LEADER
    assert partition(one, FULL).leader == 2
    one.settle()


def test_a_broker_that_stops_leaves_the_others(ensemble: Ensemble) -> None:
    _, one = member(ensemble, 1)
    member(ensemble, 2)
    create(one, 1)

    one.leave(BrokerId(1))

    assert partition(one, ORDERS).leader == NO_LEADER
    assert partition(one, FULL).leader == 1


def test_a_broker_that_would_lead_twice_in_one_epoch_does_not_start(ensemble: Ensemble) -> None:
    _, one = member(ensemble, 1)
    store, _ = member(ensemble, 2)
    create(one, 2)
    store.close()

    with pytest.raises(StorageError, match="'a-full' is full; shorten"):
        member(ensemble, 2)

    one.reload()
    assert one.replace_topic_configs("a-full", {}) is None
    member(ensemble, 2)
    assert partition(one, FULL).leader == NO_LEADER


def test_a_broker_that_has_nothing_of_it_starts(ensemble: Ensemble) -> None:
    _, one = member(ensemble, 1)
    store, _ = member(ensemble, 2)
    create(one, 2)
    store.close()

    _, three = member(ensemble, 3)

    assert partition(three, FULL).leader == 2
    assert set(three.state.brokers) == {1, 3}


def test_what_clients_could_ever_fill_leaves_room_for_elections(ensemble: Ensemble) -> None:
    _, one = member(ensemble, 1)
    store, _ = member(ensemble, 2)
    create(one, 2, size=MAX_TOPIC_BYTES)
    assert one.claim_term(BrokerId(1))
    store.close()
    one.reload()

    one.settle()

    assert partition(one, FULL).leader == NO_LEADER
    member(ensemble, 2)


def test_others_come_into_sync(ensemble: Ensemble) -> None:
    _, one = member(ensemble, 1)
    _, two = member(ensemble, 2)
    create(one, 1, 2)
    two.reload()
    for name in (FULL, ORDERS):
        record = one.state.topics[name.topic]
        alone = replace(record.partitions[0], isr=(BrokerId(1),))
        node = ensemble.nodes[entity_path(record)]
        changed = replace(record, partitions=(alone,))
        if name is FULL:
            changed = replace(changed, configs={KEY: changed.configs[KEY] + "11"})
        MemoryStore(ensemble).commit([UpdateNode(node.path, encode_entity(changed))])
    one.reload()

    plan = one.alter_isr(
        [
            IsrProposal(
                partition=name,
                topic_id=one.state.topics[name.topic].topic_id,
                leader=BrokerId(1),
                leader_epoch=partition(one, name).leader_epoch,
                partition_epoch=partition(one, name).partition_epoch,
                isr={BrokerId(1): -1, BrokerId(2): one.state.brokers[BrokerId(2)].epoch},
            )
            for name in (FULL, ORDERS)
        ]
    )

    refused = plan.outcomes[FULL]
    assert isinstance(refused, Rejection)
    assert refused.error is ClusterError.POLICY_VIOLATION
    assert partition(one, FULL).isr == (1,)
    assert partition(one, ORDERS).isr == (1, 2)


def test_a_change_that_cannot_be_left_out_changes_nothing(ensemble: Ensemble) -> None:
    _, one = member(ensemble, 1)
    create(one, 1)
    runner = CommandRunner(MemoryStore(ensemble))
    records = [runner.state.topics[each] for each in ("orders", "a-full")]
    longer = [replace(each, configs={KEY: "1" * MAX_NODE_BYTES}) for each in records]
    wanted: list[TopicRecord] = [replace(records[0], configs={KEY: "0:1"}), longer[1]]

    with pytest.raises(InvalidArgument, match="at most"):
        runner.run(lambda: wanted, lambda decided: [Put(each) for each in decided])

    one.reload()
    assert one.state.topics["orders"].configs == {}
