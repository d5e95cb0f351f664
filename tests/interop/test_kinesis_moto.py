"""moto as an oracle: the gateway and moto's Kinesis answer the same requests alike.

Both get the same requests from boto3. All that moto answers must be in the gateway's answer, which
may have more. Times, sequence numbers and request ids differ by nature and are left out. Where moto
differs from the service, the request is not in the list: puts after a merge (moto uses the closed
shard), consumers after their end (moto keeps them), a stream without a policy (moto answers {}).
"""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.identity.account import Account
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import kinesis_client, wait_for_active

STREAM = "arn:aws:kinesis:us-east-1:123456789012:stream/oracle"
NONE = "arn:aws:kinesis:us-east-1:123456789012:stream/none"
FIRST, SECOND, THIRD = (f"shardId-{at:012d}" for at in range(3))
NAMED = {"StreamName": "oracle"}
POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow",
            "Principal": {"AWS": "111122223333"},
            "Action": "kinesis:GetRecords",
            "Resource": STREAM,
        },
    }
)
KEYS = ["ada", "bob", "clé", "d" * 200, "17"]

Request = tuple[str, dict[str, Any]]
REQUESTS: list[Request] = [
    ("create_stream", {**NAMED, "ShardCount": 3}),
    ("create_stream", {**NAMED, "ShardCount": 3}),
    ("describe_stream", NAMED),
    ("describe_stream", {"StreamARN": STREAM}),
    ("describe_stream", {"StreamName": "none"}),
    ("describe_stream_summary", NAMED),
    ("list_shards", NAMED),
    ("list_shards", {**NAMED, "MaxResults": 2}),
    *(("put_record", {**NAMED, "Data": b"x", "PartitionKey": key}) for key in KEYS),
    ("put_record", {**NAMED, "Data": b"x", "PartitionKey": "k", "ExplicitHashKey": "0"}),
    ("put_record", {**NAMED, "Data": b"x", "PartitionKey": "k", "ExplicitHashKey": str(2**128)}),
    ("put_record", {"StreamName": "none", "Data": b"x", "PartitionKey": "k"}),
    (
        "put_records",
        {**NAMED, "Records": [{"Data": b"%d" % at, "PartitionKey": f"{at}"} for at in range(20)]},
    ),
    (
        "get_shard_iterator",
        {
            **NAMED,
            "ShardId": "shardId-000000000009",
            "ShardIteratorType": "LATEST",
        },
    ),
    ("add_tags_to_stream", {**NAMED, "Tags": {"a": "1", "b": "2"}}),
    ("list_tags_for_stream", NAMED),
    ("remove_tags_from_stream", {**NAMED, "TagKeys": ["a"]}),
    ("list_tags_for_stream", NAMED),
    ("increase_stream_retention_period", {**NAMED, "RetentionPeriodHours": 48}),
    ("increase_stream_retention_period", {**NAMED, "RetentionPeriodHours": 30}),
    ("decrease_stream_retention_period", {**NAMED, "RetentionPeriodHours": 24}),
    ("decrease_stream_retention_period", {**NAMED, "RetentionPeriodHours": 20}),
    ("describe_stream_summary", NAMED),
    ("enable_enhanced_monitoring", {**NAMED, "ShardLevelMetrics": ["IncomingBytes"]}),
    ("describe_stream", NAMED),
    ("disable_enhanced_monitoring", {**NAMED, "ShardLevelMetrics": ["ALL"]}),
    ("start_stream_encryption", {**NAMED, "EncryptionType": "KMS", "KeyId": "alias/one"}),
    ("describe_stream_summary", NAMED),
    ("stop_stream_encryption", {**NAMED, "EncryptionType": "KMS", "KeyId": "alias/one"}),
    ("describe_stream_summary", NAMED),
    ("put_resource_policy", {"ResourceARN": STREAM, "Policy": POLICY}),
    ("get_resource_policy", {"ResourceARN": STREAM}),
    ("delete_resource_policy", {"ResourceARN": STREAM}),
    ("delete_resource_policy", {"ResourceARN": STREAM}),
    ("get_resource_policy", {"ResourceARN": NONE}),
    ("register_stream_consumer", {"StreamARN": STREAM, "ConsumerName": "one"}),
    ("list_stream_consumers", {"StreamARN": STREAM}),
    ("describe_stream_consumer", {"StreamARN": STREAM, "ConsumerName": "one"}),
    ("describe_stream_consumer", {"StreamARN": STREAM, "ConsumerName": "two"}),
    ("deregister_stream_consumer", {"StreamARN": STREAM, "ConsumerName": "one"}),
    ("merge_shards", {**NAMED, "ShardToMerge": FIRST, "AdjacentShardToMerge": THIRD}),
    ("merge_shards", {**NAMED, "ShardToMerge": FIRST, "AdjacentShardToMerge": SECOND}),
    ("list_shards", NAMED),
    ("split_shard", {**NAMED, "ShardToSplit": THIRD, "NewStartingHashKey": str(2**128 - 2**64)}),
    ("split_shard", {**NAMED, "ShardToSplit": "shardId-000000000099", "NewStartingHashKey": "5"}),
    ("split_shard", {**NAMED, "ShardToSplit": FIRST, "NewStartingHashKey": "5"}),
    ("list_shards", NAMED),
    ("delete_stream", NAMED),
    ("delete_stream", {"StreamName": "none"}),
]


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[Any]:
    settings = KinesisSettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        account=Account("123456789012"),
        limits=False,
        master_keys={"alias/one": b"1" * 32},
    )
    with KinesisServer(settings) as server:
        yield kinesis_client(server.url)


def answer_to(client: Any, request: Request) -> Any:
    operation, members = request
    try:
        answer = getattr(client, operation)(**members)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return comparable(answer)


_BY_NATURE = (
    "ResponseMetadata",
    "SequenceNumber",
    "SequenceNumberRange",
    "NextToken",
    "StreamCreationTimestamp",
    "ConsumerCreationTimestamp",
    "ConsumerARN",
)


def comparable(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: comparable(each) for name, each in answer.items() if name not in _BY_NATURE}
    return [comparable(each) for each in answer] if isinstance(answer, list) else answer


def has(ours: Any, theirs: Any) -> bool:
    """Return whether an answer has all that another one has."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(name in ours and has(ours[name], each) for name, each in theirs.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(has, ours, theirs))
    return bool(ours == theirs)


def test_the_gateway_answers_as_moto_does(client: Any) -> None:
    with mock_aws():
        moto = boto3.client(
            "kinesis", "us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
        )
        expected = [answer_to(moto, each) for each in REQUESTS]
    found = []
    for each in REQUESTS:
        found.append(answer_to(client, each))
        if not each[0].startswith(("describe", "list", "get", "put", "delete")):
            wait_for_active(client, "oracle")

    differences = [
        f"{each}: moto {theirs}, the gateway {ours}"
        for each, theirs, ours in zip(REQUESTS, expected, found, strict=True)
        if not has(ours, theirs)
    ]
    assert not differences, "\n".join(differences)
