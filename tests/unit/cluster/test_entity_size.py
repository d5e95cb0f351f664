"""How far clients may fill a node, so that the cluster can always change it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.acl import Acl
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.config_command import (
    ConfigAlteration,
    alter_broker_configs,
    alter_resource_configs,
    alter_topic_configs,
)
from headrace.cluster.entity import encode_entity
from headrace.cluster.entity_size import (
    MAX_TOPIC_BYTES,
    TopicRoom,
    entity_problem,
    topic_bytes,
    topic_problem,
)
from headrace.cluster.partition_command import PartitionPlan, reassign
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.resource_config import ResourceKind
from headrace.cluster.state import ClusterState, Put
from headrace.cluster.store import MAX_NODE_BYTES
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord, random_topic_id
from headrace.cluster.topic_command import (
    NewPartitions,
    TopicDefaults,
    TopicToCreate,
    create_partitions,
    create_topics,
)
from headrace.model.config_code import ConfigOperation
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition

KEY = "leader.replication.throttled.replicas"
LAST_EPOCH = 2**31 - 1


def topic(*partitions: PartitionRecord, configs: dict[str, str] | None = None) -> TopicRecord:
    return TopicRecord(
        name="orders", topic_id=random_topic_id(), partitions=partitions, configs=configs or {}
    )


def filled(record: TopicRecord, size: int = MAX_TOPIC_BYTES) -> TopicRecord:
    """Return the topic with so long a value that its node may become just so large."""
    empty = replace(record, configs={KEY: ""})
    return replace(record, configs={KEY: throttled(size - topic_bytes(empty))})


def throttled(length: int) -> str:
    items = max(0, (length - 3) // 4)
    return "0:1," * items + "0:" + "1" * (length - 4 * items - 2)


def on(*replicas: int) -> PartitionRecord:
    return PartitionRecord.on([BrokerId(each) for each in replicas])


def state_of(record: TopicRecord, *brokers: int) -> ClusterState:
    state = ClusterState()
    state.apply(Put(record))
    for number in brokers:
        state.apply(Put(BrokerRecord(broker_id=BrokerId(number), endpoints=())))
    return state


brokers = st.lists(
    st.integers(0, 2**31 - 1).map(BrokerId), min_size=1, max_size=6, unique=True
).map(tuple)


@given(
    partitions=st.lists(st.tuples(brokers, st.booleans()), min_size=1, max_size=5), data=st.data()
)
def test_no_leader_epoch_or_replica_in_sync_makes_a_topic_larger(
    partitions: list[tuple[tuple[BrokerId, ...], bool]], data: st.DataObject
) -> None:
    epochs = st.integers(0, LAST_EPOCH)
    record = topic(
        *(
            PartitionRecord(
                replicas=replicas,
                leader=data.draw(st.sampled_from([*replicas, NO_LEADER])),
                isr=replicas[: data.draw(st.integers(1, len(replicas)))],
                leader_epoch=LeaderEpoch(data.draw(epochs)),
                partition_epoch=data.draw(epochs),
                adding=replicas[:1] if moving else (),
                removing=replicas[1:] if moving else (),
            )
            for replicas, moving in partitions
        )
    )

    assert len(encode_entity(record)) <= topic_bytes(record)


def test_the_size_is_reached() -> None:
    widest = replace(on(7, 1000), leader_epoch=LAST_EPOCH, partition_epoch=LAST_EPOCH)
    moving = replace(widest, adding=(BrokerId(7),), removing=())
    record = topic(replace(widest, leader=BrokerId(1000)), replace(moving, leader=BrokerId(1000)))

    # All but the comma that is not behind the last partition.
    assert len(encode_entity(record)) == topic_bytes(record) - 1


def test_a_topic_is_created_up_to_the_limit(three_brokers: ClusterState) -> None:
    room = MAX_TOPIC_BYTES - topic_bytes(topic(on(1), configs={KEY: ""}))

    def create(length: int) -> TopicRecord | Rejection:
        wanted = TopicToCreate(name="orders", configs={KEY: throttled(length)})
        return create_topics(three_brokers, [wanted], defaults=TopicDefaults()).outcomes["orders"]

    assert isinstance(create(room), TopicRecord)
    refused = create(room + 1)
    assert isinstance(refused, Rejection)
    assert refused.error is ClusterError.POLICY_VIOLATION
    assert "'orders' may grow to 1000001 bytes" in refused.message


def test_a_topic_is_not_created_with_too_long_a_configuration(three_brokers: ClusterState) -> None:
    wanted = TopicToCreate(name="orders", configs={KEY: throttled(10 * MAX_NODE_BYTES)})

    plan = create_topics(three_brokers, [wanted], defaults=TopicDefaults())

    refused = plan.outcomes["orders"]
    assert isinstance(refused, Rejection)
    assert "is too long" in refused.message


def test_ten_thousand_partitions_of_three_replicas_with_long_ids_fit() -> None:
    assert topic_problem(topic(*[on(1001, 1002, 1003)] * 10_000)) is None


def test_a_full_topic_does_not_grow() -> None:
    state = state_of(filled(topic(on(1))), 1)

    plan = create_partitions(state, [NewPartitions(name="orders", total=2)])

    refused = plan.outcomes["orders"]
    assert isinstance(refused, Rejection)
    assert refused.error is ClusterError.POLICY_VIOLATION
    assert plan.changes == []


@pytest.mark.parametrize("length", [MAX_TOPIC_BYTES, MAX_NODE_BYTES, 10 * MAX_NODE_BYTES])
def test_a_configuration_that_is_too_long_is_refused(length: int) -> None:
    state = state_of(topic(on(1)), 1)
    longer = [ConfigAlteration(KEY, ConfigOperation.SET, throttled(length))]

    refused = alter_topic_configs(state, "orders", longer)

    assert isinstance(refused, Rejection)
    assert refused.error is ClusterError.POLICY_VIOLATION


def test_a_topic_that_is_too_large_may_become_smaller() -> None:
    state = state_of(filled(topic(on(1)), MAX_TOPIC_BYTES + 1_000), 1)
    text = state.topics["orders"].configs[KEY]

    shorter = alter_topic_configs(
        state, "orders", [ConfigAlteration(KEY, ConfigOperation.SET, text[4:])]
    )
    longer = alter_topic_configs(
        state, "orders", [ConfigAlteration(KEY, ConfigOperation.SET, "0:1," + text)]
    )

    assert isinstance(shorter, Put)
    assert isinstance(longer, Rejection)


def test_partitions_are_moved_as_far_as_their_records_fit() -> None:
    parts = [on(1, 2, 3)] * 4
    moved = reassign_all(state_of(topic(*parts), *range(1, 7)), 4).outcomes
    one_move = max(0, move_bytes(parts[0], moved[TopicPartition("orders", 0)]))
    state = state_of(filled(topic(*parts), MAX_TOPIC_BYTES - 2 * one_move), *range(1, 7))

    outcomes = list(reassign_all(state, 4).outcomes.values())

    assert [isinstance(each, PartitionRecord) for each in outcomes] == [True, True, False, False]
    refused = outcomes[-1]
    assert isinstance(refused, Rejection)
    assert "move fewer of its partitions" in refused.message


def reassign_all(state: ClusterState, count: int) -> PartitionPlan:
    target = [BrokerId(each) for each in (4, 5, 6)]
    wanted = {TopicPartition("orders", number): target for number in range(count)}
    return reassign(state, wanted, state.brokers.keys())


def move_bytes(before: PartitionRecord, after: object) -> int:
    assert isinstance(after, PartitionRecord)
    return topic_bytes(topic(after)) - topic_bytes(topic(before))


def test_what_makes_a_partition_smaller_needs_no_room() -> None:
    full = filled(topic(on(1, 2, 3)), MAX_TOPIC_BYTES + 500)
    assert TopicRoom().take(full, on(1, 2, 3), on(1, 2)) is None


def test_a_brokers_configuration_has_a_limit(one_broker: ClusterState) -> None:
    text = "0" * MAX_NODE_BYTES + "1"
    longer = [ConfigAlteration("log.cleaner.threads", ConfigOperation.SET, text)]

    refused = alter_broker_configs(one_broker, BrokerId(1), longer)

    assert isinstance(refused, Rejection)
    assert refused.error is ClusterError.INVALID_CONFIG


def test_a_resource_with_too_long_a_name_is_refused(one_broker: ClusterState) -> None:
    refused = alter_resource_configs(
        one_broker,
        ResourceKind.GROUP,
        "g" * 5_000,
        [ConfigAlteration("consumer.session.timeout.ms", ConfigOperation.SET, "50000")],
        check=lambda values: None,
    )

    assert isinstance(refused, Rejection)
    assert "at most 4096" in refused.message


def test_an_entry_is_named_by_what_it_says() -> None:
    acl = Acl("topic", "x" * 4_096, "literal", "User:anna", "*", "read", "allow")
    assert entity_problem(acl) is not None
    assert entity_problem(replace(acl, resource_name="orders")) is None


def test_the_replicas_of_a_topic_that_is_too_large_already_can_move() -> None:
    first, second, third, fourth = (BrokerId(each) for each in (1, 2, 3, 1000))
    partition = PartitionRecord(replicas=(first, second, third), leader=first, isr=(first,))
    large = topic(*[partition] * 25_000)
    assert topic_bytes(large) > MAX_TOPIC_BYTES > len(encode_entity(large))

    room = TopicRoom()
    moved = replace(partition, replicas=(fourth, first, second, third), adding=(fourth,))
    taken = [room.take(large, partition, moved) for _ in range(25_000)]

    assert taken[0] is None
    assert isinstance(taken[-1], Rejection)
    assert topic_problem(replace(large, configs={"retention.ms": "1"}), large) is None
    too_long = replace(large, configs={"a": "x" * 400_000})
    assert isinstance(topic_problem(too_long, large), Rejection)
