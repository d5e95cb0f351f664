"""What a runner reads again, and when: after conflicts, refusals and commits that may be done."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from headrace.cluster import command_runner
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.command_runner import _COMMIT_BYTES, CommandRunner, _pieces
from headrace.cluster.entity import Entity, decode_entity, encode_entity, entity_path
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Put, Remove
from headrace.cluster.store import CreateNode, DeleteNode, Node, UpdateNode, Write, write_bytes
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.cluster.topic_command import (
    TopicDefaults,
    TopicPlan,
    TopicToCreate,
    create_topics,
    delete_topics,
)
from headrace.cluster.topic_life import life_path
from headrace.model.error import StorageError, VersionConflict
from headrace.model.ids import BrokerId
from testkit.simulation.memory_store import Ensemble, MemoryStore


class CountingStore(MemoryStore):
    """Counts how often a kind of entity was read as a whole."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self.loads = 0

    def scan(self, kind: str) -> list[Node]:
        self.loads += kind == TopicRecord.KIND
        return super().scan(kind)


def topic(name: str) -> TopicRecord:
    partitions = (PartitionRecord.on([BrokerId(1)]),)
    return TopicRecord(name=name, topic_id=random_topic_id(), partitions=partitions)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(Ensemble())


@pytest.fixture
def runner(store: CountingStore) -> CommandRunner:
    return CommandRunner(store)


def put(runner: CommandRunner, record: TopicRecord) -> None:
    runner.run(lambda: record, lambda decided: [Put(decided)])


def create_elsewhere(store: CountingStore, record: TopicRecord) -> None:
    other = MemoryStore(store.ensemble)
    other.commit(
        [CreateNode(life_path(record), b""), CreateNode(entity_path(record), encode_entity(record))]
    )


def test_what_was_there_at_the_start_is_no_change(store: CountingStore) -> None:
    create_elsewhere(store, topic("a"))

    runner = CommandRunner(store)

    assert list(runner.state.topics) == ["a"]
    assert runner.take_changes() == []


def test_each_change_is_taken_once(runner: CommandRunner) -> None:
    record = topic("a")
    put(runner, record)

    assert runner.take_changes() == [Put(record)]
    assert runner.take_changes() == []
    runner.run(lambda: record, lambda decided: [Remove(decided)])
    assert runner.take_changes() == [Remove(record)]


def test_a_plain_command_reads_nothing_again(runner: CommandRunner, store: CountingStore) -> None:
    before = store.loads
    put(runner, topic("a"))
    assert store.loads == before


def test_after_a_commit_that_may_be_done_everything_is_read_once(
    runner: CommandRunner, store: CountingStore
) -> None:
    def cut() -> None:
        raise StorageError("the connection is cut")

    store.after = cut
    with pytest.raises(StorageError):
        put(runner, topic("a"))
    store.after = lambda: None
    before = store.loads

    put(runner, topic("b"))
    put(runner, topic("c"))

    assert list(runner.state.topics) == ["a", "b", "c"]
    assert store.loads == before + 1


def test_a_refusal_is_decided_again_on_what_the_store_holds(
    runner: CommandRunner, store: CountingStore
) -> None:
    refused = Rejection(ClusterError.UNKNOWN_TOPIC_OR_PARTITION, "not there")
    create_elsewhere(store, topic("a"))

    decided = runner.run(lambda: runner.state.topics.get("a") or refused, lambda _: ())

    assert decided is runner.state.topics["a"]


def test_a_refused_plan_reads_its_topics_and_the_brokers_only(
    runner: CommandRunner, store: CountingStore
) -> None:
    """With 20,000 topics, reading everything for a topic that exists takes seconds."""
    create_elsewhere(store, topic("a"))
    create_elsewhere(store, topic("b"))
    loads = store.loads

    def decide() -> TopicPlan:
        return delete_topics(runner.state, ["a", "no topic can have this name", "x" * 5000])

    plan = runner.run(decide, lambda plan: plan.changes)

    assert isinstance(plan.outcomes["a"], TopicRecord)
    assert runner.state.topics == {}
    assert store.loads == loads


def test_a_refused_plan_knows_the_brokers_that_run(
    runner: CommandRunner, store: CountingStore
) -> None:
    gone = BrokerRecord(broker_id=BrokerId(1), endpoints=())
    here = BrokerRecord(broker_id=BrokerId(2), endpoints=())
    runner.run(lambda: gone, lambda decided: [Put(decided)])
    del store.ensemble.nodes[entity_path(gone)]
    MemoryStore(store.ensemble).commit([CreateNode(entity_path(here), encode_entity(here))])
    asked = [TopicToCreate(name="a", partitions=1, replication_factor=2)]

    plan = runner.run(
        lambda: create_topics(runner.state, asked, defaults=TopicDefaults()),
        lambda plan: plan.changes,
    )

    assert isinstance(plan.outcomes["a"], Rejection)
    assert list(runner.state.brokers) == [2]


def test_a_node_that_holds_what_it_held_is_not_decoded_again(
    runner: CommandRunner, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, elsewhere, changed = topic("a"), topic("b"), topic("c")
    put(runner, written)
    create_elsewhere(store, elsewhere)
    put(runner, changed)
    runner.load()
    decoded = []

    def counted(node: Node) -> Entity:
        decoded.append(node.path)
        return decode_entity(node)

    monkeypatch.setattr(command_runner, "decode_entity", counted)
    new = replace(changed, configs={"retention.ms": "1"})
    other = MemoryStore(store.ensemble)
    other.commit([UpdateNode(entity_path(new), encode_entity(new), 0)])
    other.commit([UpdateNode(entity_path(written), encode_entity(written), 0)])

    runner.load()
    put(runner, replace(written, configs={"retention.ms": "2"}))  # its version was read

    assert decoded == [entity_path(new)]
    assert runner.state.topics["c"] == new


def test_after_a_conflict_a_refusal_stands(runner: CommandRunner, store: CountingStore) -> None:
    """The conflict has read everything already."""
    record = topic("a")
    refused = Rejection(ClusterError.TOPIC_ALREADY_EXISTS, "there already")
    create_elsewhere(store, record)
    before = store.loads

    decided = runner.run(
        lambda: refused if "a" in runner.state.topics else record,
        lambda each: [Put(each)] if isinstance(each, TopicRecord) else [],
    )

    assert decided is refused
    assert store.loads == before + 1


def test_a_topic_that_goes_while_it_is_read_is_gone(
    runner: CommandRunner, store: CountingStore
) -> None:
    """Its second node is looked at after the first: both were deleted in between."""
    record = topic("a")
    create_elsewhere(store, record)
    reads = []

    def delete_before_the_second_read() -> None:
        reads.append(1)
        if len(reads) == 2:
            nodes = store.ensemble.nodes
            for path in (entity_path(record), life_path(record)):
                nodes.pop(path, None)

    store.before = delete_before_the_second_read
    runner.catch_up([entity_path(record)])

    assert runner.state.topics == {}


def test_a_node_that_another_broker_changed_is_read(
    runner: CommandRunner, store: CountingStore
) -> None:
    record = topic("a")
    create_elsewhere(store, record)
    runner.catch_up([entity_path(record)])
    assert runner.state.topics == {"a": record}

    other = MemoryStore(store.ensemble)
    other.commit([DeleteNode(entity_path(record), 0), DeleteNode(life_path(record), 0)])
    runner.catch_up([entity_path(record)])
    runner.catch_up([entity_path(record)])

    assert runner.state.topics == {}
    assert runner.take_changes() == [Put(record), Remove(record)]


def test_a_runner_that_always_loses_gives_up(runner: CommandRunner, store: CountingStore) -> None:
    record = topic("a")
    put(runner, record)
    other = MemoryStore(store.ensemble)

    def decide() -> TopicRecord:
        node = store.ensemble.nodes[entity_path(record)]
        other.commit([UpdateNode(node.path, node.data, node.version)])
        return record

    with pytest.raises(VersionConflict, match="try again"):
        runner.run(decide, lambda decided: [Put(decided)])


# Commits that a packet of ZooKeeper's can carry.


def test_changes_are_cut_into_as_few_commits_as_fit() -> None:
    part = _COMMIT_BYTES // 5 * 2
    assert _pieces([part] * 5) == [(0, 2), (2, 4), (4, 5)]


@pytest.mark.parametrize(("more", "pieces"), [(0, [(0, 2), (2, 4)]), (1, [(0, 1), (1, 3), (3, 4)])])
def test_a_commit_may_be_full_to_the_last_byte(more: int, pieces: list[tuple[int, int]]) -> None:
    half = _COMMIT_BYTES // 2
    assert _pieces([half + more, _COMMIT_BYTES - half, half, _COMMIT_BYTES - half]) == pieces


def test_every_commit_has_the_same_limit() -> None:
    half = _COMMIT_BYTES // 2
    sizes = [half, _COMMIT_BYTES - half, half + 1, _COMMIT_BYTES - half]
    assert _pieces(sizes) == [(0, 2), (2, 3), (3, 4)]


def test_a_change_that_is_too_large_goes_alone_and_none_make_no_commit() -> None:
    assert _pieces([_COMMIT_BYTES * 2] * 2) == [(0, 1), (1, 2)]
    assert _pieces([]) == []


def test_every_commit_has_room_for_the_checks() -> None:
    part = _COMMIT_BYTES // 3
    left = _COMMIT_BYTES - 2 * part
    assert _pieces([part] * 4, checks_bytes=left) == [(0, 2), (2, 4)]
    assert _pieces([part] * 4, checks_bytes=left + 1) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_paths_deletions_and_second_nodes_count_too(
    runner: CommandRunner, store: CountingStore
) -> None:
    records = [topic(f"{number:04d}" + "x" * 200) for number in range(1_000)]
    runner.run(lambda: records, lambda decided: [Put(each) for each in decided])
    committed: list[int] = []
    commit = store.commit

    def measured(writes: Sequence[Write]) -> list[int]:
        committed.append(sum(map(write_bytes, writes)))
        return commit(writes)

    store.commit = measured  # type: ignore[method-assign]
    runner.run(lambda: records, lambda decided: [Remove(each) for each in decided])

    assert runner.state.topics == {}
    assert len(committed) > 1
    assert max(committed) <= _COMMIT_BYTES


class ReadCountingStore(MemoryStore):
    """Counts the reads that are round trips to a store elsewhere."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self.trips = 0
        self._many = False

    def get(self, path: str) -> Node | None:
        self.trips += not self._many
        return super().get(path)

    def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        self.trips += 1
        self._many = True
        try:
            return super().get_all(paths)
        finally:
            self._many = False


def test_many_changes_take_a_few_reads() -> None:
    """As after a failover: a thousand topics have changed, and another thousand are new."""
    store = ReadCountingStore(Ensemble())
    other = CommandRunner(MemoryStore(store.ensemble))
    records = [topic(f"t{number}") for number in range(2_000)]
    for record in records[:1_000]:
        put(other, record)
    runner = CommandRunner(store)
    changed = [replace(each, configs={"retention.ms": "1"}) for each in records[:1_000]]
    for record in [*changed, *records[1_000:]]:
        put(other, record)
    other.run(lambda: changed[0], lambda decided: [Remove(decided)])
    store.trips = 0

    runner.catch_up(entity_path(each) for each in records)

    assert store.trips <= 3
    assert runner.state.topics == other.state.topics
    changes = runner.take_changes()
    assert len(changes) == 2_000 and Remove(records[0]) in changes


def test_what_this_broker_wrote_itself_is_not_decoded_again(
    runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = topic("a")
    put(runner, record)
    runner.take_changes()
    monkeypatch.setattr(command_runner, "decode_entity", lambda node: pytest.fail(node.path))

    runner.catch_up([entity_path(record)])

    assert runner.take_changes() == []
