"""What the state remembers about topics beside their records, and how configurations add up."""

from dataclasses import replace
from uuid import UUID

import pytest

from headrace.cluster.broker import BrokerConfig
from headrace.cluster.credential import credential_problem
from headrace.cluster.entity import decode_entity, encode_entity, entity_path
from headrace.cluster.quota import ClientQuota, altered, quota_problem
from headrace.cluster.state import ClusterState, Put, Remove
from headrace.cluster.store import (
    MAX_NODE_BYTES,
    MAX_PATH_BYTES,
    Node,
    check_data,
    check_path,
    node_path,
    path_parts,
)
from headrace.cluster.term import term_holder
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.model.error import InvalidArgument
from headrace.model.ids import BrokerId, TopicId


def topic(name: str, number: int = 1) -> TopicRecord:
    partitions = (PartitionRecord.on([BrokerId(1)]),)
    return TopicRecord(name=name, topic_id=TopicId(UUID(int=number)), partitions=partitions)


def test_every_change_of_a_topic_and_no_other_changes_the_version() -> None:
    state = ClusterState()
    seen = [state.topics_version]
    for change in (Put(topic("a")), Put(topic("a")), Remove(topic("a"))):
        state.apply(change)
        seen.append(state.topics_version)
    state.apply(Put(BrokerConfig(broker_id=None)))

    assert len(set(seen)) == 4
    assert state.topics_version == seen[-1]


def test_a_topic_that_was_created_again_has_one_id() -> None:
    """Both changes may arrive as one."""
    state = ClusterState()
    first, second = topic("a", 1), topic("a", 2)

    state.apply(Put(first))
    state.apply(Put(second))

    assert state.topic_by_id(first.topic_id) is None
    assert state.topic_by_id(second.topic_id) is second
    state.apply(Remove(second))
    assert state.topic_by_id(second.topic_id) is None


def test_a_deletion_that_is_heard_of_twice_is_one() -> None:
    state = ClusterState()
    state.apply(Put(topic("a")))
    for _ in range(2):
        state.apply(Remove(topic("a")))

    assert state.topics == {}


def test_names_collide_while_both_are_there() -> None:
    state = ClusterState()
    for number, name in enumerate(("a.b", "a_b")):
        state.apply(Put(topic(name, number)))

    assert state.colliding_topic("a.b") == "a_b"
    state.apply(Remove(topic("a_b")))
    assert state.colliding_topic("a.b") is None
    assert state.colliding_topic("a_b") == "a.b"


def test_what_is_set_for_one_broker_counts_before_what_is_set_for_all() -> None:
    state = ClusterState()
    state.apply(Put(BrokerConfig(broker_id=BrokerId(1), configs={"a": "one"})))
    state.apply(Put(BrokerConfig(broker_id=None, configs={"a": "all", "b": "all"})))

    assert state.dynamic_configs(BrokerId(1)) == {"a": "one", "b": "all"}
    assert state.dynamic_configs(BrokerId(2)) == {"a": "all", "b": "all"}


USER = (("user", "anna"),)


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        ("producer_byte_rate", 1.0, True),
        ("producer_byte_rate", 1.5, False),
        ("consumer_byte_rate", 2.5, False),
        ("request_percentage", 0.5, True),
        ("request_percentage", 0.0, False),
        ("request_percentage", -1.0, False),
        ("request_percentage", float("nan"), False),
        ("request_percentage", None, True),
        ("connection_creation_rate", 1.0, False),
    ],
)
def test_a_quota_is_a_positive_number(key: str, value: float | None, fits: bool) -> None:
    assert (quota_problem(USER, {key: value}) is None) is fits


@pytest.mark.parametrize(
    ("entity", "fits"),
    [
        (USER, True),
        ((("client-id", "c"), ("user", None)), True),
        ((("user", ""),), False),
        ((("group", "g"),), False),
        ((("ip", "1.2.3.4"),), False),
    ],
)
def test_who_can_have_a_byte_rate(entity: tuple[tuple[str, str | None], ...], fits: bool) -> None:
    assert (quota_problem(entity, {"producer_byte_rate": 1.0}) is None) is fits


def test_quotas_are_set_and_removed_one_by_one() -> None:
    first = altered(None, USER, {"producer_byte_rate": 1.0})
    both = altered(first, USER, {"consumer_byte_rate": 2.0})
    other = altered(both, USER, {"producer_byte_rate": None, "request_percentage": None})

    assert both == ClientQuota(
        entity=USER, values={"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}
    )
    assert other == ClientQuota(entity=USER, values={"consumer_byte_rate": 2.0})
    assert altered(other, USER, {"consumer_byte_rate": None}) is None


def test_the_name_of_a_quota_is_read_from_its_key() -> None:
    quota = ClientQuota(entity=(("client-id", None), ("user", "=a")), values={})

    assert ClientQuota.from_json(quota.key(), quota.to_json()) == quota


@pytest.mark.parametrize(
    ("iterations", "fits"), [(4_095, False), (4_096, True), (16_384, True), (16_385, False)]
)
def test_a_password_is_hashed_often_enough_and_not_too_often(iterations: int, fits: bool) -> None:
    assert (credential_problem("anna", "SCRAM-SHA-256", iterations) is None) is fits
    assert credential_problem("", "SCRAM-SHA-256", iterations) is not None
    assert credential_problem("anna", "PLAIN", iterations) is not None


# Nodes.


def test_a_partition_that_moves_survives_its_node() -> None:
    moving = PartitionRecord(
        replicas=(BrokerId(1), BrokerId(2)),
        leader=BrokerId(1),
        isr=(BrokerId(1),),
        adding=(BrokerId(2),),
        removing=(BrokerId(1),),
    )
    record = replace(topic("a"), partitions=(moving, *topic("a").partitions))

    assert decode_entity(Node(entity_path(record), encode_entity(record), 0, False)) == record
    assert not record.internal
    assert record.replication_factor == 1


def test_the_same_entity_has_the_same_bytes() -> None:
    one, other = (replace(topic("a"), configs=dict(keys)) for keys in (["ab", "cd"], ["cd", "ab"]))

    assert encode_entity(one) == encode_entity(other)


def test_a_path_has_a_kind_and_a_name() -> None:
    longest = "/kind/" + "n" * (MAX_PATH_BYTES - 6)

    assert check_path(longest) == ("kind", longest[6:])
    for path in (longest + "n", "kind/name", "/kind", "/kind/", "//name", "/a/b/c", "/kind/ü"):
        with pytest.raises(InvalidArgument):
            check_path(path)


def test_a_node_has_a_limit() -> None:
    check_data("/kind/name", b"." * MAX_NODE_BYTES)
    with pytest.raises(InvalidArgument):
        check_data("/kind/name", b"." * (MAX_NODE_BYTES + 1))


def test_the_names_of_a_node_may_hold_anything() -> None:
    parts = ("a/b", "c,d", "", "ü")

    assert path_parts(node_path("kind", *parts)) == parts


@pytest.mark.parametrize("data", [b"", b"{}", b'{"broker":"x"}', b"7", b"[]"])
def test_a_term_that_cannot_be_read_has_no_holder(data: bytes) -> None:
    assert term_holder(Node("/controller/x", data, 0, True)) is None


def test_the_holder_of_a_term_is_a_broker() -> None:
    assert term_holder(None) is None
    assert term_holder(Node("/controller/x", b'{"broker":7}', 0, True)) == 7


def test_ids_of_topics_can_be_written_on_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [UUID(int=0), UUID(int=1), UUID(bytes=b"\xf8" + bytes(15)), UUID(int=2)]
    monkeypatch.setattr("headrace.cluster.topic.uuid4", lambda: made.pop(0))

    assert random_topic_id() == UUID(int=2), "neither Kafka's own ids, nor one with a dash in front"
