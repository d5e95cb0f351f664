"""Kafka's own tools change configurations, and find what they have set."""

import json
import re
from pathlib import Path
from urllib.request import urlopen

import pytest

from headrace.model.config_code import ConfigResourceType
from headrace.wire.api import ApiKey
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient


def set_keys(client: WireClient, kind: ConfigResourceType, name: str) -> set[str]:
    """The keys that were set at run time for a resource."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    [answer] = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]}).results
    return {each.name for each in answer.configs if each.config_source in (1, 2, 3)}


@pytest.mark.parametrize("end", ["--verify", "--cancel"])
def test_a_reassignment_takes_its_throttles_back(
    broker: BrokerProcess,
    kafka_tools: KafkaTools,
    client: WireClient,
    created: str,
    tmp_path: Path,
    end: str,
) -> None:
    moves = [{"topic": created, "partition": 0, "replicas": [1]}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))

    def reassign(*arguments: str) -> str:
        server = ("--bootstrap-server", broker.address, "--reassignment-json-file", str(plan))
        tool = KafkaTool.REASSIGN_PARTITIONS
        return kafka_tools.run(tool, *server, *arguments).checked().stdout

    throttles = ("--throttle", "5000000", "--replica-alter-log-dirs-throttle", "5000000")
    reassign("--execute", *throttles)
    assert set_keys(client, ConfigResourceType.TOPIC, created) == {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
    assert "leader.replication.throttled.rate" in set_keys(client, ConfigResourceType.BROKER, "1")

    assert "Clearing broker-level throttles" in reassign(end)

    assert set_keys(client, ConfigResourceType.TOPIC, created) == set()
    assert set_keys(client, ConfigResourceType.BROKER, "1") == set()


def test_kafka_configs_knows_groups_and_loggers(
    broker: BrokerProcess, kafka_tools: KafkaTools, group: str
) -> None:
    def configs(*arguments: str) -> str:
        server = ("--bootstrap-server", broker.address)
        return kafka_tools.run(KafkaTool.CONFIGS, *server, *arguments).checked().stdout

    one_group = ("--entity-type", "groups", "--entity-name", group)
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    configs("--alter", *one_group, "--add-config", "consumer.session.timeout.ms=50000")
    configs("--alter", *loggers, "--add-config", "headrace.broker.config.settings=ERROR")

    assert "consumer.session.timeout.ms=50000" in configs("--describe", *one_group)
    assert "headrace.broker.config.settings=ERROR" in configs("--describe", *loggers)


def test_metrics_that_a_client_pushes_are_on_the_admin_port(
    broker: BrokerProcess, kafka_tools: KafkaTools, client: WireClient, topic: str
) -> None:
    def subscriptions(*arguments: str) -> str:
        server = ("--bootstrap-server", broker.address)
        return kafka_tools.run(KafkaTool.CLIENT_METRICS, *server, *arguments).checked().stdout

    wanted = ("--metrics", "org.apache.kafka.producer.", "--interval", "100")
    subscriptions("--alter", "--name", "of-tests", *wanted, "--match", "client_id=perf.*")
    settings = (f"bootstrap.servers={broker.address}", "client.id=perf-1")
    load = ("--topic", topic, "--num-records", "10", "--record-size", "10", "--throughput", "10")
    kafka_tools.run(KafkaTool.PRODUCER_PERFORMANCE, *load, "--producer-props", *settings).checked()

    with urlopen(f"{broker.admin_url}/client-metrics") as page:
        pushed = page.read().decode()
    described = subscriptions("--describe")
    subscriptions("--delete", "--name", "of-tests")

    assert re.search(r'org_apache_kafka_producer_record_send_total\{client_id="perf-1"', pushed)
    assert "of-tests" in described
    assert "org.apache.kafka.producer." in described
    answer = client.ask(ApiKey.LIST_CONFIG_RESOURCES, 0, {})
    assert answer.config_resources == ()
