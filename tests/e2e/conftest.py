"""Fixtures of the tests that send single requests."""

from collections.abc import Iterator

import pytest

from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.wire_transaction import WireTransaction


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.address) as connected:
        yield connected


@pytest.fixture
def created(client: WireClient, topic: str) -> str:
    """Create a topic with two partitions."""
    new_topic = {"name": topic, "num_partitions": 2, "replication_factor": 1}
    answer = client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [new_topic], "timeout": 10_000})
    assert answer.topics[0].error_code == ErrorCode.none
    return topic


@pytest.fixture
def transaction(client: WireClient, topic: str) -> WireTransaction:
    return WireTransaction(client, f"id-of-{topic}")
