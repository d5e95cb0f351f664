"""Configurations of groups, of loggers and of subscriptions to clients' metrics."""

from uuid import uuid4

import pytest

from headrace.model.config_code import ConfigOperation, ConfigResourceType, ConfigSource
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

NONE = ErrorCode.none
SET, DELETE, APPEND, _ = ConfigOperation
GROUP, LOGGER = ConfigResourceType.GROUP, ConfigResourceType.BROKER_LOGGER
METRICS = ConfigResourceType.CLIENT_METRICS


def alter(
    client: WireClient,
    kind: ConfigResourceType,
    name: str,
    key: str,
    value: str | None = None,
    operation: ConfigOperation = SET,
) -> ErrorCode:
    config = {"name": key, "config_operation": operation, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    body = {"resources": [resource], "validate_only": False}
    [answer] = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body).responses
    code: ErrorCode = answer.error_code
    return code


def described(
    client: WireClient, kind: ConfigResourceType, name: str
) -> dict[str, tuple[str, ConfigSource]]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    [answer] = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]}).results
    assert answer.error_code == NONE, answer
    return {each.name: (each.value, ConfigSource(each.config_source)) for each in answer.configs}


def listed(client: WireClient, kind: ConfigResourceType) -> set[str]:
    body = {"resource_types": [kind]}
    answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, body)
    return {each.resource_name for each in answer.config_resources}


def test_a_groups_own_heartbeat_reaches_its_members(
    client: WireClient, group: str, created: str
) -> None:
    key = "consumer.heartbeat.interval.ms"
    assert described(client, GROUP, group)[key] == ("200", ConfigSource.DEFAULT_CONFIG)
    assert group not in listed(client, GROUP)

    assert alter(client, GROUP, group, key, "6000") == NONE

    assert described(client, GROUP, group)[key] == ("6000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert group in listed(client, GROUP)
    body = {
        "group_id": group,
        "member_id": str(uuid4()),
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": [created],
        "topic_partitions": [],
    }
    joined = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)
    assert joined.heartbeat_interval.total_seconds() == 6
    assert alter(client, GROUP, group, key, operation=DELETE) == NONE
    assert group not in listed(client, GROUP)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer.heartbeat.interval.ms", "10"),
        ("consumer.session.timeout.ms", "70000"),
        ("consumer.session.timeout.ms", "soon"),
        ("no.such.key", "1"),
    ],
)
def test_what_a_group_cannot_have_is_refused(
    client: WireClient, group: str, key: str, value: str
) -> None:
    assert alter(client, GROUP, group, key, value) == ErrorCode.invalid_config


def test_a_resource_needs_a_name(client: WireClient) -> None:
    assert alter(client, GROUP, "", "x", "1") == ErrorCode.invalid_request
    assert alter(client, METRICS, "", "x", "1") == ErrorCode.invalid_request
    assert alter(client, LOGGER, "", "root", "INFO") == ErrorCode.invalid_request


def test_levels_of_loggers_change_until_they_are_taken_back(client: WireClient) -> None:
    name, package = "headrace.broker.dispatch", "headrace.broker"
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    assert described(client, LOGGER, "1")[name] == ("INFO", source)

    assert alter(client, LOGGER, "1", package, "WARN") == NONE
    assert described(client, LOGGER, "1")[name] == ("WARN", source)
    assert alter(client, LOGGER, "1", package, operation=DELETE) == NONE

    assert described(client, LOGGER, "1")[name] == ("INFO", source)
    assert alter(client, LOGGER, "1", package, "LOUD") == ErrorCode.invalid_config
    assert alter(client, LOGGER, "1", "no.such.logger", "INFO") == ErrorCode.invalid_config
    assert alter(client, LOGGER, "1", "root", operation=DELETE) == ErrorCode.invalid_request
    assert alter(client, LOGGER, "1", "root", "INFO", APPEND) == ErrorCode.invalid_request


def test_loggers_are_changed_one_by_one(client: WireClient) -> None:
    levels = [{"name": "root", "value": "WARN"}]
    resource = {"resource_type": LOGGER, "resource_name": "1", "configs": levels}
    body = {"resources": [resource], "validate_only": False}

    [answer] = client.ask(ApiKey.ALTER_CONFIGS, 2, body).responses

    assert answer.error_code == ErrorCode.invalid_request


def test_a_refused_request_is_one_line_at_debug_level(
    broker: BrokerProcess, client: WireClient, created: str
) -> None:
    logger = "headrace.broker.refusal_log"
    assert alter(client, LOGGER, "1", logger, "DEBUG") == NONE
    try:
        bad_topic = {"name": "bad/name", "num_partitions": 1, "replication_factor": 1}
        client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [bad_topic], "timeout": 1000})
        client.produce(f"no-{created}", sample_batch(b"x"))
        client.produce(created, sample_batch(b"x"))
    finally:
        alter(client, LOGGER, "1", logger, operation=DELETE)
    client.produce(f"quiet-{created}", sample_batch(b"x"))

    refused = [line for line in broker.log.splitlines() if "request_refused" in line]

    [topics] = [line for line in refused if "api=CreateTopics" in line]
    assert "client=wire-client" in topics
    assert "bad/name INVALID_TOPIC_EXCEPTION" in topics
    [produce] = [line for line in refused if f"{created}-0" in line]
    assert f"no-{created}-0 UNKNOWN_TOPIC_OR_PARTITION" in produce
