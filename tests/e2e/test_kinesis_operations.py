"""Every operation of the service's model is called by boto3 and answers in the model's shape.

`kinesis_client` holds each answer to the model; here every operation is called at least once.
"""

import http.client
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.protocol.service_model import service_model
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client, wait_for_active

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
ROLE = "arn:aws:iam::000000000000:role/delivery"
CHANNEL = "arn:aws:kinesis:us-east-1:000000000000:channel/one"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    settings = KinesisSettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        limits=False,
        master_keys={"alias/one": b"1" * 32},
        metrics=Address("127.0.0.1", 0),
    )
    with KinesisServer(settings) as server:
        yield server


@pytest.fixture
def called() -> set[str]:
    """The operations that the client of a test has called."""
    return set()


@pytest.fixture
def client(gateway: KinesisServer, called: set[str]) -> Any:
    made = kinesis_client(gateway.url)
    made.meta.events.register(
        "before-call.kinesis", lambda model, **_: called.add(model.name), unique_id="called"
    )
    return made


@pytest.fixture
def stream(client: Any) -> str:
    name = f"whole-{next(_numbers)}"
    create_stream(client, name, shards=2)
    return name


def refused(code: str, call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as error:
        call()
    assert error.value.response["Error"]["Code"] == code
    return str(error.value)


def test_every_operation_answers_in_its_shape(client: Any, called: set[str], stream: str) -> None:
    arn = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
    _records(client, stream)
    consumer = _consumers(client, arn)
    _settings(client, stream, arn)
    _policies(client, arn, consumer)
    _channels(client, arn)
    client.deregister_stream_consumer(ConsumerARN=consumer)
    _shards(client, stream)
    _modes(client, stream, arn)
    client.delete_stream(StreamName=stream)

    assert called == set(service_model().operations)


def _records(client: Any, stream: str) -> None:
    client.put_record(StreamName=stream, Data=b"a", PartitionKey="k")
    client.put_records(StreamName=stream, Records=[{"Data": b"b", "PartitionKey": "k"}])
    for shard in (FIRST, SECOND):
        iterator = client.get_shard_iterator(
            StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        client.get_records(ShardIterator=iterator)


def _consumers(client: Any, arn: str) -> str:
    made = client.register_stream_consumer(StreamARN=arn, ConsumerName="one", Tags={"a": "b"})
    consumer: str = made["Consumer"]["ConsumerARN"]
    client.describe_stream_consumer(ConsumerARN=consumer)
    client.list_stream_consumers(StreamARN=arn)
    events = client.subscribe_to_shard(
        ConsumerARN=consumer, ShardId=FIRST, StartingPosition={"Type": "LATEST"}
    )["EventStream"]
    assert "SubscribeToShardEvent" in next(iter(events))
    events.close()
    return consumer


def _settings(client: Any, stream: str, arn: str) -> None:
    client.list_streams()
    client.describe_limits()
    client.describe_stream(StreamName=stream)
    client.add_tags_to_stream(StreamName=stream, Tags={"a": "1"})
    client.list_tags_for_stream(StreamName=stream)
    client.remove_tags_from_stream(StreamName=stream, TagKeys=["a"])
    client.tag_resource(ResourceARN=arn, Tags={"b": "2"})
    client.list_tags_for_resource(ResourceARN=arn)
    client.untag_resource(ResourceARN=arn, TagKeys=["b"])
    for change in (
        lambda: client.increase_stream_retention_period(StreamName=stream, RetentionPeriodHours=48),
        lambda: client.decrease_stream_retention_period(StreamName=stream, RetentionPeriodHours=24),
        lambda: client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=2048),
        lambda: client.start_stream_encryption(
            StreamName=stream, EncryptionType="KMS", KeyId="alias/one"
        ),
        lambda: client.stop_stream_encryption(
            StreamName=stream, EncryptionType="KMS", KeyId="alias/one"
        ),
    ):
        change()
        wait_for_active(client, stream)
    client.enable_enhanced_monitoring(StreamName=stream, ShardLevelMetrics=["ALL"])
    client.disable_enhanced_monitoring(StreamName=stream, ShardLevelMetrics=["IncomingBytes"])
    client.describe_account_settings()


def _policies(client: Any, arn: str, consumer: str) -> None:
    for resource in (arn, consumer):
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": "111122223333"},
            "Action": "kinesis:*",
            "Resource": resource,
        }
        text = json.dumps({"Version": "2012-10-17", "Statement": statement})
        client.put_resource_policy(ResourceARN=resource, Policy=text)
        assert client.get_resource_policy(ResourceARN=resource)["Policy"] == text
        client.delete_resource_policy(ResourceARN=resource)


def _channels(client: Any, arn: str) -> None:
    source = {"StreamARN": arn, "RecordConfiguration": {"RecordFormatType": "JSON"}}
    assert client.list_channels(StreamFilter=[{"StreamARN": arn}])["ChannelSummaries"] == []
    storage = {
        "BucketARN": "arn:aws:s3:::lake",
        "ExpectedBucketOwner": "000000000000",
        "CompressionType": "NONE",
    }
    refused(
        "ValidationException",  # it is provisioned; tests/e2e/test_kinesis_channel.py has the rest
        lambda: client.create_channel(
            ChannelName="one",
            ServiceExecutionRoleARN=ROLE,
            StreamConfigurationList=[source],
            S3DestinationConfiguration={"StorageConfiguration": storage},
        ),
    )
    for call in (client.describe_channel, client.delete_channel, client.update_channel):
        refused("ResourceNotFoundException", lambda call=call: call(ChannelARN=CHANNEL))


def _shards(client: Any, stream: str) -> None:
    client.merge_shards(StreamName=stream, ShardToMerge=FIRST, AdjacentShardToMerge=SECOND)
    wait_for_active(client, stream)
    [shard] = client.list_shards(StreamName=stream, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    client.split_shard(
        StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(2**127)
    )
    wait_for_active(client, stream)
    client.update_shard_count(StreamName=stream, TargetShardCount=1, ScalingType="UNIFORM_SCALING")
    wait_for_active(client, stream)


def _modes(client: Any, stream: str, arn: str) -> None:
    client.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})
    client.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    wait_for_active(client, stream)
    client.update_stream_warm_throughput(StreamName=stream, WarmThroughputMiBps=1)
    wait_for_active(client, stream)
    client.update_stream_record_distribution_strategy(
        StreamARN=arn, RecordDistributionStrategy="AUTO"
    )


def test_enhanced_monitoring_is_served_to_prometheus(
    gateway: KinesisServer, client: Any, stream: str
) -> None:
    enabled = client.enable_enhanced_monitoring(
        StreamName=stream, ShardLevelMetrics=["IncomingRecords", "OutgoingBytes"]
    )
    assert enabled["CurrentShardLevelMetrics"] == []
    assert enabled["DesiredShardLevelMetrics"] == ["IncomingRecords", "OutgoingBytes"]
    for _ in range(3):
        client.put_record(StreamName=stream, Data=b"x", PartitionKey="k", ExplicitHashKey="0")
    iterator = client.get_shard_iterator(
        StreamName=stream, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    client.get_records(ShardIterator=iterator)

    labels = f'{{shard="{FIRST}",stream="{stream}"}}'
    text = scraped(gateway)
    assert f"headrace_kinesis_shard_incoming_records_total{labels} 3.0" in text
    assert f"headrace_kinesis_shard_outgoing_bytes_total{labels} 6.0" in text
    assert f"incoming_bytes_total{labels}" not in text
    client.disable_enhanced_monitoring(StreamName=stream, ShardLevelMetrics=["ALL"])
    assert stream not in scraped(gateway)


def scraped(gateway: KinesisServer) -> str:
    url = urlsplit(gateway.metrics_url or "")
    connection = http.client.HTTPConnection(url.netloc, timeout=90)
    connection.request("GET", url.path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text
