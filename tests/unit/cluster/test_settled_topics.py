"""How often the controller looks at a topic: once per record, not once per change of any topic."""

from dataclasses import replace

import pytest

from headrace.cluster import settled_topics
from headrace.cluster.partition_command import settle_topics
from headrace.cluster.settled_topics import SettledTopics
from headrace.cluster.state import Change, ClusterState, Put, Remove
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.model.ids import BrokerId

ONE, TWO = BrokerId(1), BrokerId(2)
BOTH = (ONE, TWO)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    settle = settled_topics.settle_topic

    def counted(topic: TopicRecord, *args: object, **options: object) -> TopicRecord:
        names.append(topic.name)
        return settle(topic, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(settled_topics, "settle_topic", counted)
    return names


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState()
    for name in ("a", "b", "c"):
        partitions = (PartitionRecord.on(BOTH),)
        state.apply(Put(TopicRecord(name=name, topic_id=random_topic_id(), partitions=partitions)))
    return state


def settle(settled: SettledTopics, state: ClusterState, *alive: BrokerId) -> list[Change]:
    return settled.changes(state, alive, unclean_default=False)


def test_only_a_topic_that_has_changed_is_looked_at_again(
    state: ClusterState, looked_at: list[str]
) -> None:
    settled = SettledTopics()
    assert settle(settled, state, *BOTH) == []
    assert looked_at == ["a", "b", "c"]
    looked_at.clear()
    state.apply(Put(replace(state.topics["b"], configs={"retention.ms": "1"})))
    state.apply(Remove(state.topics["c"]))

    assert settle(settled, state, *BOTH) == []
    assert settle(settled, state, *BOTH) == []

    assert looked_at == ["b"]


def test_all_are_looked_at_when_a_broker_comes_or_goes(
    state: ClusterState, looked_at: list[str]
) -> None:
    settled = SettledTopics()
    settle(settled, state, *BOTH)

    assert settle(settled, state, TWO) == settle_topics(state, [TWO])
    assert looked_at == ["a", "b", "c"] * 2


def test_a_default_for_unclean_elections_counts_at_once(state: ClusterState) -> None:
    partition = replace(state.topics["a"].partitions[0], isr=(ONE,))
    state.apply(Put(replace(state.topics["a"], partitions=(partition,))))
    settled = SettledTopics()
    for change in settle(settled, state, TWO):
        state.apply(change)
    assert settle(settled, state, TWO) == []

    (change,) = settled.changes(state, [TWO], unclean_default=True)

    assert isinstance(change.entity, TopicRecord)
    assert change.entity.partitions[0].leader == TWO


def test_a_change_that_was_not_committed_is_decided_again(state: ClusterState) -> None:
    settled = SettledTopics()
    first = settle(settled, state, TWO)

    assert len(first) == 3
    assert settle(settled, state, TWO) == first
