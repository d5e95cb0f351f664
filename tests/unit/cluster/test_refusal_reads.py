"""What a refusal costs: with 20,000 topics, reading all of them again takes seconds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.command_runner import CommandRunner
from headrace.cluster.config_command import (
    ConfigAlteration,
    alter_topic_configs,
    replace_topic_configs,
)
from headrace.cluster.entity import Entity, encode_entity, entity_path
from headrace.cluster.entity_size import MAX_TOPIC_BYTES
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Change
from headrace.cluster.store import CreateNode, Node, UpdateNode, Write
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.cluster.topic_command import (
    MAX_PARTITIONS_PER_REQUEST,
    NewPartitions,
    TopicDefaults,
    TopicPlan,
    TopicToCreate,
    create_partitions,
    create_topics,
)
from headrace.cluster.topic_life import life_path
from headrace.model.config_code import ConfigOperation
from headrace.model.ids import BrokerId
from testkit.simulation.memory_store import Ensemble, MemoryStore

KEY = "leader.replication.throttled.replicas"
TOO_LONG = {KEY: "1" * (MAX_TOPIC_BYTES + 1)}
BROKER = BrokerId(1)


class ReadingStore(MemoryStore):
    """Notes what is read: a path, or a kind of entity as a whole."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self.read: list[str] = []

    def scan(self, kind: str) -> list[Node]:
        self.read.append(kind)
        return super().scan(kind)

    def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        wanted = list(paths)
        self.read += wanted
        return super().get_all(wanted)


def topic(name: str) -> TopicRecord:
    partitions = (PartitionRecord.on([BROKER]),)
    return TopicRecord(name=name, topic_id=random_topic_id(), partitions=partitions)


def commit(store: MemoryStore, *writes: Write) -> None:
    """Write as another broker does."""
    MemoryStore(store.ensemble).commit(writes)


def node(entity: Entity) -> CreateNode:
    return CreateNode(entity_path(entity), encode_entity(entity))


def create(store: MemoryStore, record: TopicRecord) -> None:
    commit(store, CreateNode(life_path(record), b""), node(record))


@pytest.fixture
def store() -> ReadingStore:
    store = ReadingStore(Ensemble())
    commit(store, node(BrokerRecord(broker_id=BROKER, endpoints=(), home="home 1")))
    create(store, topic("clicks"))
    return store


@pytest.fixture
def runner(store: ReadingStore) -> CommandRunner:
    runner = CommandRunner(store)
    store.read.clear()
    return runner


def errors(plan: TopicPlan) -> set[ClusterError | None]:
    return {each.error if isinstance(each, Rejection) else None for each in plan.outcomes.values()}


@pytest.mark.parametrize(
    "request_of",
    [
        lambda name: TopicToCreate(name=name, configs=TOO_LONG),
        lambda name: TopicToCreate(name=name, partitions=MAX_PARTITIONS_PER_REQUEST + 1),
        lambda name: TopicToCreate(
            name=name, assignments={each: [1] for each in range(MAX_PARTITIONS_PER_REQUEST + 1)}
        ),
    ],
    ids=["configuration", "partitions", "assignments"],
)
def test_new_topics_that_no_cluster_takes_cost_no_read(
    runner: CommandRunner, store: ReadingStore, request_of: Callable[[str], TopicToCreate]
) -> None:
    topics = [request_of(f"t{number}") for number in range(3)]

    plan = runner.run(
        lambda: create_topics(runner.state, topics, defaults=TopicDefaults()),
        lambda plan: plan.changes,
    )

    assert errors(plan) == {ClusterError.POLICY_VIOLATION}
    assert store.read == []


def changes_of(decided: Change | Rejection) -> Sequence[Change]:
    return [] if isinstance(decided, Rejection) else [decided]


@pytest.mark.parametrize("name", ["clicks", "unknown"])
def test_a_refused_configuration_of_a_topic_reads_that_topic_only(
    runner: CommandRunner, store: ReadingStore, name: str
) -> None:
    decided = runner.run(lambda: replace_topic_configs(runner.state, name, TOO_LONG), changes_of)

    assert isinstance(decided, Rejection)
    assert TopicRecord.KIND not in store.read
    assert entity_path(topic(name)) in store.read


def test_a_topic_that_another_broker_has_just_created_is_configured(
    runner: CommandRunner, store: ReadingStore
) -> None:
    create(store, topic("new"))
    alteration = ConfigAlteration(KEY, ConfigOperation.SET, "0:1")

    decided = runner.run(lambda: alter_topic_configs(runner.state, "new", [alteration]), changes_of)

    assert not isinstance(decided, Rejection)
    assert runner.state.topics["new"].configs == {KEY: "0:1"}
    assert TopicRecord.KIND not in store.read


def test_how_many_partitions_are_added_depends_on_how_many_there_are(
    runner: CommandRunner, store: ReadingStore
) -> None:
    record = runner.state.topics["clicks"]
    grown = replace(record, partitions=record.partitions * 2)
    commit(store, UpdateNode(entity_path(grown), encode_entity(grown)))
    request = NewPartitions(name="clicks", total=MAX_PARTITIONS_PER_REQUEST + 2)

    plan = runner.run(lambda: create_partitions(runner.state, [request]), lambda plan: plan.changes)

    assert errors(plan) == {None}
