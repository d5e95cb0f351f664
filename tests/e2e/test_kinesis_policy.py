"""Resource policies by boto3: keys of another account may do what a policy allows."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client, read_shard

FIRST = "shardId-000000000000"
OTHER = "111122223333"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    settings = KinesisSettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        limits=False,
        keys={"AKIDADA": "secret-of-ada", "AKIDEVE": "secret-of-eve", "AKIDBOB": "secret-of-bob"},
        principals={"AKIDBOB": f"arn:aws:iam::{OTHER}:user/bob"},
    )
    with KinesisServer(settings) as server:
        yield server


@pytest.fixture
def ada(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url, key="AKIDADA", secret="secret-of-ada")


@pytest.fixture
def bob(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url, key="AKIDBOB", secret="secret-of-bob")


@pytest.fixture
def stream(ada: Any) -> str:
    name = f"policy-{next(_numbers)}"
    create_stream(ada, name)
    return name


def arn_of(client: Any, name: str) -> str:
    summary = client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    text: str = summary["StreamARN"]
    return text


def policy(effect: str, principal: Any, actions: list[str], resource: str) -> str:
    statement = {
        "Effect": effect,
        "Principal": principal,
        "Action": [f"kinesis:{each}" for each in actions],
        "Resource": resource,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDeniedException"
        return True
    return False


def test_another_account_reads_what_a_policy_allows(ada: Any, bob: Any, stream: str) -> None:
    arn = arn_of(ada, stream)
    ada.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    start = {"StreamARN": arn, "ShardId": FIRST, "ShardIteratorType": "TRIM_HORIZON"}
    assert refuses(lambda: bob.get_shard_iterator(**start))
    assert refuses(bob.list_streams)

    text = policy("Allow", {"AWS": OTHER}, ["GetShardIterator", "GetRecords"], arn)
    ada.put_resource_policy(ResourceARN=arn, Policy=text)

    assert ada.get_resource_policy(ResourceARN=arn) | {"ResponseMetadata": 0} == {
        "Policy": text,
        "ResponseMetadata": 0,
    }
    assert [each["Data"] for each in read_shard(bob, stream, FIRST)] == [b"x"]
    assert refuses(lambda: bob.put_record(StreamARN=arn, Data=b"y", PartitionKey="k"))
    assert refuses(lambda: bob.delete_resource_policy(ResourceARN=arn))
    iterator = bob.get_shard_iterator(**start)["ShardIterator"]
    ada.delete_resource_policy(ResourceARN=arn)
    assert refuses(lambda: bob.get_records(ShardIterator=iterator))
    with pytest.raises(ClientError, match="No resource policy") as error:
        ada.get_resource_policy(ResourceARN=arn)
    assert error.value.response["Error"]["Code"] == "ResourceNotFoundException"


def test_a_denial_holds_for_the_own_account_and_can_be_undone(
    gateway: KinesisServer, ada: Any, stream: str
) -> None:
    arn = arn_of(ada, stream)
    eve = kinesis_client(gateway.url, key="AKIDEVE", secret="secret-of-eve")
    ada.put_resource_policy(ResourceARN=arn, Policy=policy("Deny", "*", ["*"], arn))

    assert refuses(lambda: ada.put_record(StreamName=stream, Data=b"x", PartitionKey="k"))
    assert refuses(lambda: eve.delete_stream(StreamName=stream))
    denied = {"AWS": "arn:aws:iam::000000000000:user/AKIDEVE"}
    ada.put_resource_policy(ResourceARN=arn, Policy=policy("Deny", denied, ["Put*"], arn))
    ada.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    assert refuses(lambda: eve.put_record(StreamName=stream, Data=b"x", PartitionKey="k"))
    assert eve.describe_stream_summary(StreamName=stream)


def test_a_policy_of_a_consumer(ada: Any, bob: Any, stream: str) -> None:
    arn = arn_of(ada, stream)
    made = ada.register_stream_consumer(StreamARN=arn, ConsumerName="one")["Consumer"]
    consumer = made["ConsumerARN"]
    assert refuses(lambda: bob.describe_stream_consumer(ConsumerARN=consumer))
    actions = ["DescribeStreamConsumer", "SubscribeToShard"]
    ada.put_resource_policy(
        ResourceARN=consumer, Policy=policy("Allow", {"AWS": OTHER}, actions, consumer)
    )

    assert bob.describe_stream_consumer(ConsumerARN=consumer)["ConsumerDescription"]
    ada.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    events = bob.subscribe_to_shard(
        ConsumerARN=consumer, ShardId=FIRST, StartingPosition={"Type": "TRIM_HORIZON"}
    )["EventStream"]
    found: list[bytes] = []

    def has_record() -> bool:
        event = next(iter(events))["SubscribeToShardEvent"]
        found.extend(each["Data"] for each in event["Records"])
        return bool(found)

    wait_until(has_record, what="a record", timeout_seconds=90)
    events.close()
    assert found == [b"x"]
    assert refuses(lambda: bob.describe_stream_summary(StreamARN=arn))


def test_a_policy_that_is_not_understood_is_refused(ada: Any, stream: str) -> None:
    arn = arn_of(ada, stream)
    for text in ("{}", "no json", policy("Allow", {"Service": "x"}, ["*"], arn)):
        with pytest.raises(ClientError, match="cannot be used") as error:
            ada.put_resource_policy(ResourceARN=arn, Policy=text)
        assert error.value.response["Error"]["Code"] == "InvalidArgumentException"
