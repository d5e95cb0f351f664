"""The Kinesis gateway on Apache Kafka: only Kafka's protocol is used, so it works there as well."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import ApacheKafka
from testkit.process.kinesis_client import (
    create_stream,
    kinesis_client,
    read_stream,
    wait_for_active,
)

pytestmark = pytest.mark.interop


@pytest.fixture
def clients(apache_kafka: ApacheKafka) -> Iterator[list[Any]]:
    """Two gateways on one Kafka."""
    client = ClientSettings.of({"bootstrap.servers": apache_kafka.address})
    settings = KinesisSettings(client=client, listen=Address("127.0.0.1", 0))
    with KinesisServer(settings) as one, KinesisServer(settings) as other:
        yield [kinesis_client(one.url), kinesis_client(other.url)]


def test_streams_split_and_merge_on_apache_kafka(clients: list[Any], topic: str) -> None:
    one, other = clients
    create_stream(one, topic)
    numbers = []

    def put(client: Any, text: bytes) -> None:
        answer = client.put_record(StreamName=topic, Data=text, PartitionKey="k")
        numbers.append(int(answer["SequenceNumber"]))

    put(one, b"0")
    other.update_shard_count(StreamName=topic, TargetShardCount=2, ScalingType="UNIFORM_SCALING")
    put(other, b"1")
    put(one, b"2")
    wait_for_active(one, topic)
    one.merge_shards(
        StreamName=topic,
        ShardToMerge="shardId-000000000001",
        AdjacentShardToMerge="shardId-000000000002",
    )
    put(other, b"3")
    wait_for_active(other, topic)

    records = read_stream(other, topic)
    assert [each["Data"] for each in records] == [b"0", b"1", b"2", b"3"]
    assert [int(each["SequenceNumber"]) for each in records] == numbers == sorted(numbers)
    one.delete_stream(StreamName=topic)
    wait_until(lambda: _is_gone(other, topic), what="the end of the stream", timeout_seconds=60)


def _is_gone(client: Any, name: str) -> bool:
    try:
        client.describe_stream_summary(StreamName=name)
    except ClientError as error:
        return error.response["Error"]["Code"] == "ResourceNotFoundException"
    return False
