"""Without any right: every request of every version is refused with the code clients expect.

The broker has an authorizer, no ACL and no super user, so its clients, all User:ANONYMOUS, may do
nothing. This looks into each handler's refusal once a version: a handler that forgot to ask, or
whose refusal does not fit a version's layout, shows here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest

from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

TOPIC = ErrorCode.topic_authorization_failed
GROUP = ErrorCode.group_authorization_failed
CLUSTER = ErrorCode.cluster_authorization_failed
TRANSACTION = ErrorCode.transactional_id_authorization_failed

NAME = "secret"
MEMBER = {"group_id": NAME, "member_id": "m"}
GENERATION = {**MEMBER, "generation_id": 1}
PRODUCER = {"transactional_id": NAME, "producer_id": 1, "producer_epoch": 0}
FILTER = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
CONFIGS = {
    "resources": [
        {"resource_type": 2, "resource_name": NAME, "configs": []},
        {"resource_type": 4, "resource_name": "1", "configs": []},
    ]
}

# What is asked for, and the refusal.
CASES: dict[ApiKey, tuple[Mapping[str, Any], ErrorCode]] = {
    ApiKey.LIST_OFFSETS: (
        {
            "replica_id": -1,
            "topics": [{"name": NAME, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        TOPIC,
    ),
    ApiKey.METADATA: ({"topics": [{"name": NAME}]}, TOPIC),
    ApiKey.OFFSET_COMMIT: (
        {
            **MEMBER,
            "generation_id_or_member_epoch": 1,
            "topics": [
                {
                    "name": NAME,
                    "topic_id": UUID(int=7),
                    "partitions": [{"partition_index": 0, "committed_offset": 1}],
                }
            ],
        },
        GROUP,
    ),
    ApiKey.OFFSET_FETCH: (
        {
            "group_id": NAME,
            "topics": [{"name": NAME, "partition_indexes": [0]}],
            "groups": [{"group_id": NAME, "topics": None}],
        },
        GROUP,
    ),
    ApiKey.FIND_COORDINATOR: (
        {"key": NAME, "key_type": 0, "coordinator_keys": [NAME]},
        GROUP,
    ),
    ApiKey.JOIN_GROUP: (
        {**MEMBER, "session_timeout": 10_000, "protocol_type": "consumer", "protocols": []},
        GROUP,
    ),
    ApiKey.HEARTBEAT: (GENERATION, GROUP),
    ApiKey.LEAVE_GROUP: ({"group_id": NAME, "member_id": "m", "members": []}, GROUP),
    ApiKey.SYNC_GROUP: (
        {**GENERATION, "protocol_type": "consumer", "protocol_name": "range", "assignments": []},
        GROUP,
    ),
    ApiKey.DESCRIBE_GROUPS: ({"groups": [NAME]}, GROUP),
    ApiKey.CREATE_TOPICS: (
        {
            "topics": [{"name": NAME, "num_partitions": 1, "replication_factor": 1}],
            "timeout": 1000,
        },
        TOPIC,
    ),
    ApiKey.DELETE_TOPICS: (
        {"topic_names": [NAME], "topics": [{"name": NAME}], "timeout": 1000},
        TOPIC,
    ),
    ApiKey.DELETE_RECORDS: (
        {
            "topics": [{"name": NAME, "partitions": [{"partition_index": 0, "offset": 1}]}],
            "timeout": 1000,
        },
        TOPIC,
    ),
    ApiKey.INIT_PRODUCER_ID: (
        {"transactional_id": NAME, "transaction_timeout": 1000},
        TRANSACTION,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        {"topics": [{"topic": NAME, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        TOPIC,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: ({**PRODUCER, "group_id": NAME}, TRANSACTION),
    ApiKey.END_TXN: ({**PRODUCER, "committed": True}, TRANSACTION),
    ApiKey.WRITE_TXN_MARKERS: (
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "topics": [{"name": NAME, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
        CLUSTER,
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        {
            **PRODUCER,
            "group_id": NAME,
            "topics": [
                {"name": NAME, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
            ],
        },
        TRANSACTION,
    ),
    ApiKey.DESCRIBE_ACLS: (FILTER, CLUSTER),
    ApiKey.CREATE_ACLS: (
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": NAME,
                    "principal": "User:ANONYMOUS",
                    "host": "*",
                    "operation": 2,
                    "permission_type": 3,
                }
            ]
        },
        CLUSTER,
    ),
    ApiKey.DELETE_ACLS: ({"filters": [FILTER]}, CLUSTER),
    ApiKey.DESCRIBE_CONFIGS: (
        {"resources": [{"resource_type": 2, "resource_name": NAME, "configuration_keys": None}]},
        TOPIC,
    ),
    ApiKey.ALTER_CONFIGS: (CONFIGS, TOPIC),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (CONFIGS, CLUSTER),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        {"dirs": [{"path": "/data", "topics": [{"name": NAME, "partitions": [0]}]}]},
        CLUSTER,
    ),
    ApiKey.DESCRIBE_LOG_DIRS: ({"topics": None}, CLUSTER),
    ApiKey.CREATE_PARTITIONS: (
        {"topics": [{"name": NAME, "count": 9, "assignments": None}], "timeout": 1000},
        TOPIC,
    ),
    ApiKey.DELETE_GROUPS: ({"groups_names": [NAME]}, GROUP),
    ApiKey.ELECT_LEADERS: (
        {"topic_partitions": [{"topic": NAME, "partitions": [0]}], "timeout": 1000},
        CLUSTER,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ({"topics": [], "timeout": 1000}, CLUSTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ({"topics": None, "timeout": 1000}, CLUSTER),
    ApiKey.OFFSET_DELETE: ({"group_id": NAME, "topics": []}, GROUP),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ({"components": []}, CLUSTER),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": None}], "ops": []}]},
        CLUSTER,
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ({"users": None}, CLUSTER),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        {"deletions": [{"name": "root", "mechanism": 1}], "upsertions": []},
        CLUSTER,
    ),
    ApiKey.UPDATE_FEATURES: ({"feature_updates": [], "timeout": 1000}, CLUSTER),
    ApiKey.UNREGISTER_BROKER: ({"broker_id": 7}, CLUSTER),
    ApiKey.DESCRIBE_PRODUCERS: ({"topics": [{"name": NAME, "partition_indexes": [0]}]}, TOPIC),
    ApiKey.DESCRIBE_TRANSACTIONS: ({"transactional_ids": [NAME]}, TRANSACTION),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        {
            "group_id": NAME,
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": 1000,
            "subscribed_topic_names": [NAME],
            "topic_partitions": [],
        },
        GROUP,
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ({"group_ids": [NAME]}, GROUP),
    ApiKey.LIST_CONFIG_RESOURCES: ({}, CLUSTER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ({"topics": [{"name": NAME}], "cursor": None}, TOPIC),
}

# Before this version there is no field for the refusal; the answer is empty instead.
FIRST_WITH_CODE = {ApiKey.DESCRIBE_LOG_DIRS: 3}

# Tried on their own below.
OWN = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.ADD_PARTITIONS_TO_TXN}
# These answer what the one who asks may see, which is nothing, or need no right.
NEVER_REFUSED = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        **QUICK_SETTINGS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    with BrokerProcess(tmp_path_factory.mktemp("closed"), settings) as process:
        yield process


@pytest.fixture
def client(closed: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(closed.address) as connected:
        yield connected


def codes(answer: Any) -> set[ErrorCode]:
    """Every error code anywhere in an answer, but not the absence of one."""
    if isinstance(answer, ErrorCode):
        return {answer} - {ErrorCode.none}
    if isinstance(answer, list | tuple):
        return {code for item in answer for code in codes(item)}
    if is_dataclass(answer):
        return {code for field in fields(answer) for code in codes(getattr(answer, field.name))}
    return set()


def served(api: ApiKey) -> range:
    return range(APIS[api].lowest, APIS[api].highest + 1)


def test_no_request_is_forgotten() -> None:
    assert set(CASES) | OWN | NEVER_REFUSED == set(ApiKey)


@pytest.mark.parametrize("api", CASES, ids=lambda api: api.name.lower())
def test_is_refused(client: WireClient, api: ApiKey) -> None:
    body, expected = CASES[api]

    for version in served(api):
        found = codes(client.ask(api, version, body))
        if version < FIRST_WITH_CODE.get(api, 0):
            assert not found
            continue

        assert expected in found, f"version {version} answered {found}"
        assert found <= {TOPIC, GROUP, CLUSTER, TRANSACTION}


def test_lists_are_empty(client: WireClient) -> None:
    assert client.ask(ApiKey.METADATA, 12, {"topics": None}).topics == ()
    assert client.ask(ApiKey.LIST_GROUPS, 4, {}).groups == ()
    assert client.ask(ApiKey.LIST_TRANSACTIONS, 0, {}).transaction_states == ()
    everything = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [], "cursor": None})
    assert everything.topics == ()


def test_no_operation_is_told(client: WireClient) -> None:
    answer = client.ask(ApiKey.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": True})

    assert answer.cluster_authorized_operations == 0


def test_an_idempotent_producer_needs_a_topic_to_write_to(client: WireClient) -> None:
    body = {"transactional_id": None, "transaction_timeout": 1000}

    for version in served(ApiKey.INIT_PRODUCER_ID):
        answer = client.ask(ApiKey.INIT_PRODUCER_ID, version, body)
        assert answer.error_code == CLUSTER


def test_add_partitions_to_txn_is_refused(client: WireClient) -> None:
    topics = [{"name": NAME, "partitions": [0]}]
    old = {f"v3_and_below_{key}": value for key, value in PRODUCER.items()}
    for version in served(ApiKey.ADD_PARTITIONS_TO_TXN):
        if version < 4:
            body: dict[str, Any] = {**old, "v3_and_below_topics": topics}
        else:
            body = {"transactions": [{**PRODUCER, "verify_only": False, "topics": topics}]}
        found = codes(client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, body))
        assert found == ({TRANSACTION} if version < 4 else {CLUSTER})


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_is_refused(client: WireClient, version: int) -> None:
    produced = [ProducePartition(0, memoryview(sample_batch(b"x")))]
    request = ProduceRequest(None, 1, 1000, [ProduceTopic(NAME, None, produced)])

    number = client.send_produce(version, request)
    answer = client.receive(ApiKey.PRODUCE, version, number)

    assert answer.topics[0].partitions[0].error_code == TOPIC


@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.parametrize(("replica_id", "refusal"), [(-1, TOPIC), (1, CLUSTER)])
def test_fetch_is_refused(
    client: WireClient, version: int, replica_id: int, refusal: ErrorCode
) -> None:
    """Also one that claims to come from a follower, which would see what is not committed."""
    wanted = [FetchPartition(0, -1, 0, -1, -1, 1000)]
    request = FetchRequest(
        max_wait_ms=10_000,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        topics=[FetchTopic(NAME, None, wanted)],
        session_id=0,
        session_epoch=-1,
        forgotten=[],
        rack_id="",
        replica_id=replica_id,
        replica_epoch=-1,
        cluster_id=None,
    )

    answer = client.fetch(version, request)

    assert answer.topics[0].partitions[0].error_code == refusal
