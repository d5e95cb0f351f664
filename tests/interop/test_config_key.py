"""What Apache Kafka describes, this broker describes: every key, with the same type."""

from typing import Any

import pytest

from headrace.model.config_code import ConfigResourceType
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.peer.apache_kafka import ApacheKafka
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient

_TYPES_OF_OURS = {"listener.security.protocol.map"}
"""Kafka reads it as one text, this broker as a list."""
_KINDS = sorted(
    set(ConfigResourceType) - {ConfigResourceType.BROKER_LOGGER, ConfigResourceType.MIRROR_LINK}
)
"""What Kafka's brokers have keys of; mirror links are this broker's own."""


def described(address: str, kind: ConfigResourceType, name: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    with WireClient(address) as client:
        body = {"resources": [resource], "include_documentation": True}
        answers = []

        def known() -> bool:
            # A Kafka that has created a topic hears of it a moment later.
            answers[:] = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, body).results
            return answers[0].error_code != ErrorCode.unknown_topic_or_partition

        wait_until(known, what=name)
    [answer] = answers
    assert answer.error_code == ErrorCode.none, answer
    return {each.name: each for each in answer.configs}


def create(address: str, topic: str) -> None:
    new_topic = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    with WireClient(address) as client:
        client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [new_topic], "timeout": 60_000})


@pytest.mark.parametrize("kind", _KINDS)
def test_every_key_of_apache_kafka_is_described(
    apache_kafka: ApacheKafka, broker: BrokerProcess, topic: str, kind: ConfigResourceType
) -> None:
    name = "1" if kind is ConfigResourceType.BROKER else topic
    if kind is ConfigResourceType.TOPIC:
        create(apache_kafka.address, topic)
        create(broker.address, topic)

    theirs = described(apache_kafka.address, kind, name)
    ours = described(broker.address, kind, name)

    assert theirs.keys() - ours.keys() == set()
    differing = {key for key in theirs if theirs[key].config_type != ours[key].config_type}
    assert differing <= _TYPES_OF_OURS
    for key in ours.values():
        assert key.documentation
