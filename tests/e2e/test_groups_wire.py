"""Every version of every group request, byte for byte as a client of that age would send it."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer

from headrace.wire.api import APIS, ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient

NONE = ErrorCode.none
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2


def versions(api: ApiKey) -> Any:
    served = APIS[api]
    numbers = range(served.lowest, served.highest + 1)
    return pytest.mark.parametrize("version", numbers)


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.address) as connected:
        yield connected


@pytest.fixture
def topic_id(client: WireClient, topic: str) -> UUID:
    """The id of `topic`, which now exists, with two partitions."""
    wanted = {"name": topic, "num_partitions": 2, "replication_factor": 1}
    created = client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [wanted], "timeout": 10_000})
    found: UUID = created.topics[0].topic_id
    return found


def join(client: WireClient, version: int, group: str, member_id: str = "", **more: Any) -> Any:
    body = {
        "group_id": group,
        "session_timeout": 60_000,
        "rebalance_timeout": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x01"}],
    }
    return client.ask(ApiKey.JOIN_GROUP, version, body | more)


def joined(client: WireClient, version: int, group: str) -> Any:
    """Join as a client does: with the id it is given, if the version wants that."""
    answer = join(client, version, group)
    if answer.error_code == ErrorCode.member_id_required:
        answer = join(client, version, group, answer.member_id)
    assert answer.error_code == NONE
    return answer


def synced(client: WireClient, version: int, group: str, member: Any) -> Any:
    body = {
        "group_id": group,
        "generation_id": member.generation_id,
        "member_id": member.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member.member_id, "assignment": b"mine"}],
    }
    return client.ask(ApiKey.SYNC_GROUP, version, body)


def stable_member(client: WireClient, group: str) -> Any:
    member = joined(client, 9, group)
    assert synced(client, 5, group, member).error_code == NONE
    return member


def commit(
    client: WireClient, version: int, group: str, topic: str, topic_id: UUID, **more: Any
) -> Any:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "note"}
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": topic, "topic_id": topic_id, "partitions": [partition]}],
    }
    answer = client.ask(ApiKey.OFFSET_COMMIT, version, body | more)
    return answer.topics[0].partitions[0]


@versions(ApiKey.FIND_COORDINATOR)
def test_find_coordinator_names_this_broker(
    client: WireClient, broker: BrokerProcess, version: int
) -> None:
    answer = client.ask(
        ApiKey.FIND_COORDINATOR, version, {"key": "g", "coordinator_keys": ["g", "h"]}
    )

    found = answer.coordinators if version >= 4 else [answer]
    assert [f"{each.host}:{each.port}" for each in found] == [broker.address] * len(found)
    assert [each.error_code for each in found] == [NONE] * len(found)
    if version >= 4:
        assert [each.key for each in found] == ["g", "h"]


@pytest.mark.parametrize("version", range(1, 7))
def test_find_coordinator_for_transactions(client: WireClient, version: int) -> None:
    body = {"key": "t", "coordinator_keys": ["t"], "key_type": TRANSACTION_KEY}
    answer = client.ask(ApiKey.FIND_COORDINATOR, version, body)

    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (NONE, 1)


@pytest.mark.parametrize("version", range(1, 7))
def test_find_coordinator_of_an_unknown_kind_is_refused(client: WireClient, version: int) -> None:
    body = {"key": "s", "coordinator_keys": ["s"], "key_type": SHARE_KEY}
    answer = client.ask(ApiKey.FIND_COORDINATOR, version, body)

    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (ErrorCode.invalid_request, -1)


@versions(ApiKey.JOIN_GROUP)
def test_join_group_makes_the_first_member_the_leader(
    client: WireClient, group: str, version: int
) -> None:
    member = joined(client, version, group)

    assert (member.generation_id, member.leader) == (1, member.member_id)
    assert [each.member_id for each in member.members] == [member.member_id]
    assert member.members[0].metadata == b"\x00\x01"
    assert member.protocol_name == "range"


@versions(ApiKey.JOIN_GROUP)
def test_join_group_of_a_bad_session_timeout_is_refused(
    client: WireClient, group: str, version: int
) -> None:
    answer = join(client, version, group, session_timeout=1)

    assert answer.error_code == ErrorCode.invalid_session_timeout


@versions(ApiKey.SYNC_GROUP)
def test_sync_group_gives_the_leader_its_own_assignment(
    client: WireClient, group: str, version: int
) -> None:
    answer = synced(client, version, group, joined(client, 9, group))

    assert (answer.error_code, answer.assignment) == (NONE, b"mine")


def test_sync_group_must_name_the_protocol_since_version_5(client: WireClient, group: str) -> None:
    member = joined(client, 9, group)
    body = {"group_id": group, "generation_id": 1, "member_id": member.member_id}
    answer = client.ask(ApiKey.SYNC_GROUP, 5, body)

    assert answer.error_code == ErrorCode.inconsistent_group_protocol


@versions(ApiKey.HEARTBEAT)
def test_heartbeat_knows_members_and_generations(
    client: WireClient, group: str, version: int
) -> None:
    member = stable_member(client, group)
    body = {"group_id": group, "generation_id": 1, "member_id": member.member_id}

    answers = [
        client.ask(ApiKey.HEARTBEAT, version, body | change).error_code
        for change in ({}, {"generation_id": 2}, {"member_id": "stranger"}, {"group_id": "none"})
    ]

    unknown = ErrorCode.unknown_member_id
    assert answers == [NONE, ErrorCode.illegal_generation, unknown, unknown]


@versions(ApiKey.LEAVE_GROUP)
def test_leave_group_empties_the_group(client: WireClient, group: str, version: int) -> None:
    member = stable_member(client, group)
    leaving = {"member_id": member.member_id}
    body = {"group_id": group, **leaving, "members": [leaving]}

    first = client.ask(ApiKey.LEAVE_GROUP, version, body)
    second = client.ask(ApiKey.LEAVE_GROUP, version, body)

    codes = [
        answer.members[0].error_code if version >= 3 else answer.error_code
        for answer in (first, second)
    ]
    assert codes == [NONE, ErrorCode.unknown_member_id]


@versions(ApiKey.OFFSET_COMMIT)
def test_offset_commit_keeps_offset_and_note(
    client: WireClient, group: str, topic: str, topic_id: UUID, version: int
) -> None:
    assert commit(client, version, group, topic, topic_id).error_code == NONE

    asked = {"groups": [{"group_id": group, "topics": None}]}
    (found,) = client.ask(ApiKey.OFFSET_FETCH, 9, asked).groups
    (kept,) = found.topics[0].partitions
    assert (kept.committed_offset, kept.metadata, kept.error_code) == (7, "note", NONE)


@versions(ApiKey.OFFSET_COMMIT)
def test_offset_commit_for_what_does_not_exist_is_refused(
    client: WireClient, group: str, version: int
) -> None:
    refused = commit(client, version, group, "no-such-topic", uuid4())

    by_id, by_name = ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition
    assert refused.error_code == (by_id if version >= 10 else by_name)


@versions(ApiKey.OFFSET_COMMIT)
def test_offset_commit_of_an_old_generation_is_refused(
    client: WireClient, group: str, topic: str, topic_id: UUID, version: int
) -> None:
    member = stable_member(client, group)
    claim = {"generation_id_or_member_epoch": 9, "member_id": member.member_id}

    refused = commit(client, version, group, topic, topic_id, **claim)

    assert refused.error_code == ErrorCode.illegal_generation


@versions(ApiKey.OFFSET_FETCH)
def test_offset_fetch_answers_what_was_asked_and_minus_one_for_the_rest(
    client: WireClient, group: str, topic: str, topic_id: UUID, version: int
) -> None:
    commit(client, 9, group, topic, topic_id)
    named = {"topic_id": topic_id} if version >= 10 else {"name": topic}
    topics = [{**named, "partition_indexes": [1, 0]}]
    one = {"group_id": group, "topics": topics}

    answer = client.ask(ApiKey.OFFSET_FETCH, version, {**one, "groups": [one]})

    found = answer.groups[0] if version >= 8 else answer
    offsets = [(each.partition_index, each.committed_offset) for each in found.topics[0].partitions]
    assert offsets == [(1, -1), (0, 7)]


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_fetch_of_null_topics_answers_all(
    client: WireClient, group: str, topic: str, topic_id: UUID, version: int
) -> None:
    commit(client, 9, group, topic, topic_id)
    one = {"group_id": group, "topics": None}

    answer = client.ask(ApiKey.OFFSET_FETCH, version, {**one, "groups": [one]})

    found = answer.groups[0] if version >= 8 else answer
    assert found.error_code == NONE
    (only,) = found.topics
    assert (only.topic_id == topic_id) if version >= 10 else (only.name == topic)
    assert [each.committed_offset for each in only.partitions] == [7]


def test_offset_fetch_by_an_unknown_id_is_refused_for_that_topic(
    client: WireClient, group: str, topic: str, topic_id: UUID
) -> None:
    commit(client, 9, group, topic, topic_id)
    topics = [{"topic_id": wanted, "partition_indexes": [0]} for wanted in (uuid4(), topic_id)]

    answer = client.ask(
        ApiKey.OFFSET_FETCH, 10, {"groups": [{"group_id": group, "topics": topics}]}
    )

    codes = [each.partitions[0].error_code for each in answer.groups[0].topics]
    assert codes == [ErrorCode.unknown_topic_id, NONE]


@versions(ApiKey.DESCRIBE_GROUPS)
def test_describe_groups_tells_members_and_what_is_missing(
    client: WireClient, group: str, version: int
) -> None:
    member = stable_member(client, group)

    answer = client.ask(ApiKey.DESCRIBE_GROUPS, version, {"groups": [group, "missing"]})

    found, missing = answer.groups
    assert (found.group_state, found.protocol_type, found.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (only,) = found.members
    assert (only.member_id, only.client_id, only.client_host, only.member_assignment) == (
        member.member_id,
        "wire-client",
        "/127.0.0.1",
        b"mine",
    )
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.group_id_not_found if version >= 6 else NONE)


@versions(ApiKey.LIST_GROUPS)
def test_list_groups_names_every_group(client: WireClient, group: str, version: int) -> None:
    stable_member(client, group)

    answer = client.ask(ApiKey.LIST_GROUPS, version, {})

    (found,) = [each for each in answer.groups if each.group_id == group]
    assert found.protocol_type == "consumer"
    if version >= 4:
        assert found.group_state == "Stable"
    if version >= 5:
        assert found.group_type == "classic"


@pytest.mark.parametrize(
    ("filters", "is_listed"),
    [
        ({"states_filter": ["stable"]}, True),
        ({"states_filter": ["Empty", "Dead"]}, False),
        ({"types_filter": ["Classic"]}, True),
        ({"types_filter": ["consumer"]}, False),
        ({"states_filter": ["Stable"], "types_filter": ["consumer"]}, False),
    ],
)
def test_list_groups_filters_by_state_and_type(
    client: WireClient, group: str, filters: dict[str, list[str]], is_listed: bool
) -> None:
    stable_member(client, group)

    answer = client.ask(ApiKey.LIST_GROUPS, 5, filters)

    assert (group in [each.group_id for each in answer.groups]) is is_listed


@versions(ApiKey.DELETE_GROUPS)
def test_delete_groups_needs_them_empty(
    client: WireClient, group: str, topic: str, topic_id: UUID, version: int
) -> None:
    full, empty = group, f"{group}-empty"
    stable_member(client, full)
    commit(client, 9, empty, topic, topic_id)

    names = {"groups_names": [full, empty, "missing"]}
    answer = client.ask(ApiKey.DELETE_GROUPS, version, names)

    assert [(each.group_id, each.error_code) for each in answer.results] == [
        (full, ErrorCode.non_empty_group),
        (empty, NONE),
        ("missing", ErrorCode.group_id_not_found),
    ]


def test_offset_delete_forgets_one_partition(
    client: WireClient, group: str, topic: str, topic_id: UUID
) -> None:
    commit(client, 9, group, topic, topic_id)
    wanted = [
        {"name": name, "partitions": [{"partition_index": 0}]} for name in (topic, "no-such-topic")
    ]

    answer = client.ask(ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": wanted})

    codes = [each.partitions[0].error_code for each in answer.topics]
    assert codes == [NONE, ErrorCode.unknown_topic_or_partition]
    again = client.ask(ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": wanted})
    assert again.error_code == ErrorCode.group_id_not_found


@versions(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def test_consumer_group_heartbeat_joins_and_leaves(
    client: WireClient, group: str, topic: str, topic_id: UUID, version: int
) -> None:
    body = {
        "group_id": group,
        "member_id": "" if version == 0 else str(uuid4()),
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }

    joined = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, body)
    assert (joined.error_code, joined.member_epoch) == (NONE, 1)
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic_id, (0, 1))

    leave = {"group_id": group, "member_id": joined.member_id, "member_epoch": -1}
    left = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, leave)
    assert (left.error_code, left.member_epoch, left.assignment) == (NONE, -1, None)


def test_consumer_group_heartbeat_says_what_is_wrong(client: WireClient, group: str) -> None:
    body = {
        "group_id": group,
        "member_id": str(uuid4()),
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_regex": "a)(b",
        "topic_partitions": [],
    }
    refused = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)

    assert refused.error_code == ErrorCode.invalid_regular_expression
    assert "a)(b" in refused.error_message


@versions(ApiKey.CONSUMER_GROUP_DESCRIBE)
def test_consumer_group_describe_names_topics(
    client: WireClient, group: str, topic: str, topic_id: UUID, version: int
) -> None:
    body = {
        "group_id": group,
        "member_id": str(uuid4()),
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }
    client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)

    groups = {"group_ids": [group, "missing"]}
    found, missing = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, groups).groups

    assert (found.group_state, found.group_epoch, found.assignor_name) == ("Stable", 1, "uniform")
    (assigned,) = found.members[0].assignment.topic_partitions
    assert (assigned.topic_name, assigned.topic_id) == (topic, topic_id)
    assert missing.error_code == ErrorCode.group_id_not_found


def test_nobody_else_writes_into_the_offsets(
    broker: BrokerProcess, client: WireClient, group: str
) -> None:
    stable_member(client, group)
    refused = []
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": False})
    producer.produce("__consumer_offsets", b"x", b"x", on_delivery=lambda e, _: refused.append(e))
    producer.flush(90)

    assert [error.code() for error in refused] == [ErrorCode.invalid_topic_exception]


def test_stopping_answers_who_waits_in_a_rebalance(own_broker: BrokerProcess, group: str) -> None:
    own_broker.settings |= {"group.initial.rebalance.delay.ms": "60000"}
    own_broker.start()
    with WireClient(own_broker.address) as client:
        asked = client.ask(ApiKey.FIND_COORDINATOR, 0, {"key": group})
        assert asked.error_code == NONE
        body = {
            "group_id": group,
            "session_timeout": 60_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        parked = client.send(ApiKey.JOIN_GROUP, 3, body)
        with WireClient(own_broker.address) as other:
            while not other.ask(ApiKey.LIST_GROUPS, 0, {}).groups:
                pass
        assert own_broker.stop() == 0

        answer = client.receive(ApiKey.JOIN_GROUP, 3, parked)
    assert answer.error_code == ErrorCode.not_coordinator


def test_a_connection_that_closes_in_a_rebalance_does_not_stop_it(
    broker: BrokerProcess, client: WireClient, group: str
) -> None:
    first = stable_member(client, group)
    with WireClient(broker.address) as gone:
        body = {
            "group_id": group,
            "session_timeout": 60_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        gone.send(ApiKey.JOIN_GROUP, 3, body)
        beat = {"group_id": group, "generation_id": 1, "member_id": first.member_id}
        while client.ask(ApiKey.HEARTBEAT, 4, beat).error_code == NONE:
            pass

    again = join(client, 9, group, first.member_id)

    assert (again.error_code, again.generation_id, len(again.members)) == (NONE, 2, 2)
