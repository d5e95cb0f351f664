"""Every version of every administrative request, as a client of that age would send it."""

from typing import Any
from uuid import UUID, uuid4

from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient, versions

NONE = ErrorCode.none
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16


def topic_id(client: WireClient, topic: str) -> UUID:
    found: UUID = client.ask(ApiKey.METADATA, 12, {"topics": [{"name": topic}]}).topics[0].topic_id
    return found


# -- topics


@versions(ApiKey.DELETE_TOPICS)
def test_delete_topics_by_name(client: WireClient, created: str, version: int) -> None:
    named = {"topics": [{"name": created}]} if version >= 6 else {"topic_names": [created]}

    answer = client.ask(ApiKey.DELETE_TOPICS, version, {**named, "timeout": 10_000})

    assert [(each.name, each.error_code) for each in answer.responses] == [(created, NONE)]


def test_delete_topics_by_id(client: WireClient, created: str) -> None:
    known, unknown = topic_id(client, created), uuid4()
    wanted = [{"name": None, "topic_id": each} for each in (known, unknown)]

    answer = client.ask(ApiKey.DELETE_TOPICS, 6, {"topics": wanted, "timeout": 10_000})

    assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
        (created, known, NONE),
        (None, unknown, ErrorCode.unknown_topic_id),
    ]


def test_delete_topics_needs_a_name_or_an_id(client: WireClient) -> None:
    nothing = [{"name": None, "topic_id": UUID(int=0)}]

    answer = client.ask(ApiKey.DELETE_TOPICS, 6, {"topics": nothing, "timeout": 10_000})

    assert answer.responses[0].error_code == ErrorCode.invalid_request


@versions(ApiKey.CREATE_PARTITIONS)
def test_create_partitions(client: WireClient, created: str, version: int) -> None:
    wanted = [{"name": created, "count": 3, "assignments": None}]
    body = {"topics": wanted, "timeout": 10_000, "validate_only": False}

    answer = client.ask(ApiKey.CREATE_PARTITIONS, version, body)

    assert [(each.name, each.error_code) for each in answer.results] == [(created, NONE)]


def test_create_partitions_on_given_brokers(client: WireClient, created: str) -> None:
    def grow(count: int, *brokers: int) -> Any:
        assignments = [{"broker_ids": [broker]} for broker in brokers]
        wanted = [{"name": created, "count": count, "assignments": assignments}]
        body = {"topics": wanted, "timeout": 10_000, "validate_only": False}
        return client.ask(ApiKey.CREATE_PARTITIONS, 3, body).results[0].error_code

    assert grow(3, 99) == ErrorCode.invalid_replica_assignment
    assert grow(4, 1) == ErrorCode.invalid_replica_assignment
    assert grow(4, 1, 1) == NONE


def test_the_coordinators_topics_stay_as_they_are(client: WireClient, group: str) -> None:
    client.ask(ApiKey.FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
    name = "__consumer_offsets"

    deleted = client.ask(
        ApiKey.DELETE_TOPICS, 5, {"topic_names": [name], "timeout": 10_000}
    ).responses[0]
    wanted = [{"name": name, "count": 60, "assignments": None}]
    body = {"topics": wanted, "timeout": 10_000, "validate_only": False}
    grown = client.ask(ApiKey.CREATE_PARTITIONS, 3, body).results[0]

    assert deleted.error_code == grown.error_code == ErrorCode.policy_violation


def test_describe_topic_partitions_in_pages(client: WireClient, created: str) -> None:
    body = {"topics": [{"name": created}], "response_partition_limit": 1, "cursor": None}

    first = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)
    cursor = {
        "topic_name": first.next_cursor.topic_name,
        "partition_index": first.next_cursor.partition_index,
    }
    second = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {**body, "cursor": cursor})

    assert [each.partition_index for each in first.topics[0].partitions] == [0]
    assert [each.partition_index for each in second.topics[0].partitions] == [1]
    assert second.next_cursor is None


def test_describe_topic_partitions_of_what_is_not_there(client: WireClient) -> None:
    body = {"topics": [{"name": "missing"}, {"name": "bad/name"}], "cursor": None}

    answer = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)

    assert {each.name: each.error_code for each in answer.topics} == {
        "missing": ErrorCode.unknown_topic_or_partition,
        "bad/name": ErrorCode.invalid_topic_exception,
    }


@versions(ApiKey.ELECT_LEADERS)
def test_elect_leaders_is_not_needed(client: WireClient, created: str, version: int) -> None:
    wanted = [{"topic": created, "partitions": [0, 7]}]
    body = {"election_type": 0, "topic_partitions": wanted, "timeout": 1000}

    answer = client.ask(ApiKey.ELECT_LEADERS, version, body)

    results = answer.replica_election_results[0].partition_result
    assert [each.error_code for each in results] == [
        ErrorCode.election_not_needed,
        ErrorCode.unknown_topic_or_partition,
    ]


@versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def test_replicas_have_nowhere_to_go(client: WireClient, created: str, version: int) -> None:
    wanted = [
        {"partition_index": 0, "replicas": [1]},
        {"partition_index": 1, "replicas": [2]},
        {"partition_index": 9, "replicas": [1]},
    ]
    body = {"timeout": 1000, "topics": [{"name": created, "partitions": wanted}]}

    answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, body)

    assert [each.error_code for each in answer.responses[0].partitions] == [
        NONE,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.unknown_topic_or_partition,
    ]


@versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def test_a_move_that_is_not_under_way_is_not_given_up(
    client: WireClient, created: str, version: int
) -> None:
    wanted = [{"partition_index": 1, "replicas": None}]
    body = {"timeout": 1000, "topics": [{"name": created, "partitions": wanted}]}

    answer = client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, body)

    (only,) = answer.responses[0].partitions
    assert only.error_code == ErrorCode.no_reassignment_in_progress


def test_nothing_is_being_moved(client: WireClient) -> None:
    answer = client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout": 1000, "topics": None})

    assert (answer.error_code, answer.topics) == (NONE, ())


# -- configurations


@versions(ApiKey.DESCRIBE_CONFIGS)
def test_describe_configs(client: WireClient, created: str, version: int) -> None:
    wanted = [
        {
            "resource_type": TOPIC,
            "resource_name": created,
            "configuration_keys": ["retention.ms", "segment.bytes"],
        },
        {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None},
        {"resource_type": BROKER, "resource_name": "7", "configuration_keys": None},
        {"resource_type": 77, "resource_name": "x", "configuration_keys": None},
    ]
    body = {"resources": wanted, "include_synonyms": True, "include_documentation": True}

    answer = client.ask(ApiKey.DESCRIBE_CONFIGS, version, body)

    topic, broker, other, unknown = answer.results
    assert {each.name: each.value for each in topic.configs} == {
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
    }
    assert broker.error_code == NONE
    assert len(broker.configs) > 50
    assert other.error_code == unknown.error_code == ErrorCode.invalid_request
    if version >= 3:
        assert topic.configs[0].config_type == 5  # LONG
        assert topic.configs[0].documentation


@versions(ApiKey.ALTER_CONFIGS)
def test_alter_configs_replaces_all(client: WireClient, created: str, version: int) -> None:
    def alter(**configs: str) -> ErrorCode:
        pairs = [{"name": key.replace("_", "."), "value": v} for key, v in configs.items()]
        resource = {"resource_type": TOPIC, "resource_name": created, "configs": pairs}
        body = {"resources": [resource], "validate_only": False}
        code: ErrorCode = client.ask(ApiKey.ALTER_CONFIGS, version, body).responses[0].error_code
        return code

    assert alter(retention_ms="1", segment_bytes="2000000") == NONE
    assert alter(retention_ms="2") == NONE
    assert alter(retention_ms="x") == ErrorCode.invalid_config

    assert _configs(client, created)["retention.ms"] == "2"
    assert _configs(client, created)["segment.bytes"] == "1073741824"


def _configs(client: WireClient, topic: str) -> dict[str, str]:
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
    answer = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]})
    return {each.name: each.value for each in answer.results[0].configs}


@versions(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def test_incremental_alter_configs(client: WireClient, created: str, version: int) -> None:
    def alter(operation: int, key: str, value: str | None, *, check: bool = False) -> ErrorCode:
        config = {"name": key, "config_operation": operation, "value": value}
        resource = {"resource_type": TOPIC, "resource_name": created, "configs": [config]}
        body = {"resources": [resource], "validate_only": check}
        answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, body)
        code: ErrorCode = answer.responses[0].error_code
        return code

    assert alter(0, "retention.ms", "5") == NONE
    assert alter(0, "retention.ms", "6", check=True) == NONE
    assert _configs(client, created)["retention.ms"] == "5"
    assert alter(1, "retention.ms", None) == NONE
    assert _configs(client, created)["retention.ms"] == "604800000"
    assert alter(9, "retention.ms", "5") == ErrorCode.invalid_request
    assert alter(2, "retention.ms", "5") == ErrorCode.invalid_config


def test_a_configuration_that_the_cluster_cannot_keep_is_refused(
    client: WireClient, created: str
) -> None:
    config = {
        "name": "leader.replication.throttled.replicas",
        "config_operation": 0,
        "value": "0:1," * 250_000 + "0:1",
    }
    resource = {"resource_type": TOPIC, "resource_name": created, "configs": [config]}
    body = {"resources": [resource], "validate_only": False}

    answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)

    assert answer.responses[0].error_code == ErrorCode.policy_violation


def test_a_resource_may_stand_once(client: WireClient, created: str) -> None:
    resource = {"resource_type": TOPIC, "resource_name": created, "configs": []}
    body = {"resources": [resource, resource], "validate_only": False}

    answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)

    assert {each.error_code for each in answer.responses} == {ErrorCode.invalid_request}


@versions(ApiKey.LIST_CONFIG_RESOURCES)
def test_list_config_resources(client: WireClient, created: str, version: int) -> None:
    answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, version, {"resource_types": []})

    assert answer.error_code == NONE
    if version == 0:
        assert answer.config_resources == ()
    else:
        found = {(each.resource_type, each.resource_name) for each in answer.config_resources}
        assert {(TOPIC, created), (BROKER, "1")} <= found


def test_list_config_resources_of_some_types(client: WireClient) -> None:
    def ask(*types: int) -> Any:
        return client.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": types})

    assert [each.resource_type for each in ask(BROKER).config_resources] == [BROKER]
    assert ask(CLIENT_METRICS).config_resources == ()
    assert ask(99).error_code == ErrorCode.unsupported_version


# -- the cluster


@versions(ApiKey.DESCRIBE_CLUSTER)
def test_describe_cluster(client: WireClient, broker: BrokerProcess, version: int) -> None:
    def ask(endpoint_type: int) -> Any:
        body = {"include_cluster_authorized_operations": True}
        if version >= 1:
            body["endpoint_type"] = endpoint_type
        return client.ask(ApiKey.DESCRIBE_CLUSTER, version, body)

    answer = ask(1)

    assert [f"{each.host}:{each.port}" for each in answer.brokers] == [broker.address]
    assert answer.cluster_authorized_operations > 0
    if version >= 1:
        assert ask(2).error_code == ErrorCode.mismatched_endpoint_type
        assert ask(3).error_code == ErrorCode.unsupported_endpoint_type


@versions(ApiKey.DESCRIBE_LOG_DIRS)
def test_describe_log_dirs(
    client: WireClient, broker: BrokerProcess, created: str, version: int
) -> None:
    wanted = [{"topic": created, "partitions": [1]}]

    answer = client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, {"topics": wanted})
    everything = client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, {"topics": None})

    (directory,) = answer.results
    assert directory.log_dir == str(broker.data)
    assert [each.partition_index for each in directory.topics[0].partitions] == [1]
    if version >= 4:
        assert 0 < directory.usable_bytes <= directory.total_bytes
    assert created in {topic.name for topic in everything.results[0].topics}


@versions(ApiKey.UPDATE_FEATURES)
def test_update_features(client: WireClient, version: int) -> None:
    def update(feature: str, level: int, *, down: bool = False) -> ErrorCode:
        one: dict[str, Any] = {"feature": feature, "max_version_level": level}
        one |= {"allow_downgrade": down} if version == 0 else {"upgrade_type": 2 if down else 1}
        body = {"timeout": 1000, "feature_updates": [one]}
        code: ErrorCode = client.ask(ApiKey.UPDATE_FEATURES, version, body).error_code
        return code

    def finalized() -> dict[str, int]:
        answer = client.ask(ApiKey.API_VERSIONS, 3, {"client_software_name": "t"})
        return {each.name: each.max_version_level for each in answer.finalized_features}

    assert finalized()["transaction.version"] == 2
    assert update("transaction.version", 1) == ErrorCode.invalid_update_version
    assert update("transaction.version", 3) == ErrorCode.invalid_update_version
    assert update("no.such.feature", 1) == ErrorCode.invalid_update_version
    assert update("transaction.version", 2) == NONE
    assert finalized()["transaction.version"] == 2


def test_a_whole_release_leaves_out_the_features_that_are_not_here(client: WireClient) -> None:
    def update(**levels: int) -> ErrorCode:
        updates = [
            {"feature": name.replace("_", "."), "max_version_level": level, "upgrade_type": 1}
            for name, level in levels.items()
        ]
        body = {"timeout": 1000, "feature_updates": updates}
        code: ErrorCode = client.ask(ApiKey.UPDATE_FEATURES, 2, body).error_code
        return code

    assert update(metadata_version=29, share_version=1, group_version=1) == NONE
    assert update(share_version=1) == ErrorCode.invalid_update_version
    assert update(metadata_version=29, group_version=9) == ErrorCode.invalid_update_version


def test_a_broker_that_runs_or_never_did_is_not_unregistered(client: WireClient) -> None:
    def unregister(broker_id: int) -> ErrorCode:
        answer = client.ask(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": broker_id})
        code: ErrorCode = answer.error_code
        return code

    assert unregister(1) == ErrorCode.invalid_request
    assert unregister(77) == ErrorCode.broker_id_not_registered


def test_clients_are_named_and_asked_for_no_metrics(client: WireClient) -> None:
    asked = client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, {"client_instance_id": UUID(int=0)})

    assert asked.client_instance_id is not None
    assert asked.requested_metrics == ()
    push = {
        "client_instance_id": asked.client_instance_id,
        "subscription_id": asked.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "metrics": b"",
    }
    assert client.ask(ApiKey.PUSH_TELEMETRY, 0, push).error_code == NONE
    stale = client.ask(ApiKey.PUSH_TELEMETRY, 0, {**push, "subscription_id": 9})
    assert stale.error_code == ErrorCode.unknown_subscription_id


# -- users


def test_scram_credentials_of_a_user_change_together(client: WireClient) -> None:
    def upsert(user: str, mechanism: int, iterations: int = 4096) -> dict[str, Any]:
        return {
            "name": user,
            "mechanism": mechanism,
            "iterations": iterations,
            "salt": b"salt",
            "salted_password": b"hash",
        }

    def alter(*upsertions: Any, deletions: Any = ()) -> dict[str, ErrorCode]:
        body = {"deletions": deletions, "upsertions": upsertions}
        answer = client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, body)
        return {each.user: each.error_code for each in answer.results}

    def known(user: str) -> Any:
        body = {"users": [{"name": user}]}
        return client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, body).results[0]

    assert alter(upsert("gina", 1), upsert("gina", 2, 100), upsert("hugo", 1)) == {
        "gina": ErrorCode.unacceptable_credential,
        "hugo": NONE,
    }
    assert known("gina").error_code == ErrorCode.resource_not_found
    assert [each.mechanism for each in known("hugo").credential_infos] == [1]

    assert alter(upsert("hugo", 1), upsert("hugo", 1)) == {"hugo": ErrorCode.duplicate_resource}
    assert alter(upsert("hugo", 9)) == {"hugo": ErrorCode.unsupported_sasl_mechanism}
    missing = [{"name": "hugo", "mechanism": 2}]
    assert alter(deletions=missing) == {"hugo": ErrorCode.resource_not_found}
    assert alter(deletions=[{"name": "hugo", "mechanism": 1}]) == {"hugo": NONE}
    assert known("hugo").error_code == ErrorCode.resource_not_found


def test_a_credential_that_the_cluster_cannot_keep_is_refused(client: WireClient) -> None:
    upsertion = {
        "name": "x" * 5_000,
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"hash",
    }
    body = {"deletions": [], "upsertions": [upsertion]}

    answer = client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, body)

    assert answer.results[0].error_code == ErrorCode.unacceptable_credential


def test_a_quota_that_the_cluster_cannot_keep_is_refused(client: WireClient) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "x" * 5_000}]
    operation = {"key": "producer_byte_rate", "value": 1.0, "remove": False}
    body = {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": False}

    answer = client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, body)

    assert answer.entries[0].error_code == ErrorCode.invalid_request
