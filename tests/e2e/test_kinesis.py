"""boto3 against the Kinesis gateway on a real broker; Kafka's clients see the same records."""

import base64
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Producer

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.http.token_bucket import TokenBucket
from headrace.gateway.kinesis.server import KinesisServer
from headrace.testing.readiness import wait_until
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import (
    code_of,
    create_stream,
    kinesis_client,
    read_shard,
    read_stream,
    status,
    wait_for_active,
)
from testkit.process.kinesis_gateway import kinesis_gateway

FIRST = "shardId-000000000000"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    with kinesis_gateway(broker.address, limits=False, expose=("plain-*",)) as server:
        yield server


@pytest.fixture
def client(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url)


@pytest.fixture
def name() -> str:
    return f"stream-{next(_numbers)}"


@pytest.fixture
def stream(client: Any, name: str) -> str:
    create_stream(client, name)
    return name


# -- streams


def test_a_stream_is_created_described_listed_and_deleted(client: Any, name: str) -> None:
    client.create_stream(StreamName=name, ShardCount=2, Tags={"team": "web"})
    client.get_waiter("stream_exists").wait(
        StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )

    described = client.describe_stream(StreamName=name)["StreamDescription"]
    assert described["StreamARN"] == f"arn:aws:kinesis:us-east-1:000000000000:stream/{name}"
    assert described["RetentionPeriodHours"] == 24
    assert [each["ShardId"] for each in described["Shards"]] == [FIRST, "shardId-000000000001"]
    assert described["Shards"][1]["HashKeyRange"]["StartingHashKey"] == str(2**127)
    assert name in client.list_streams(Limit=10_000)["StreamNames"]
    with pytest.raises(ClientError) as error:
        client.create_stream(StreamName=name, ShardCount=1)
    assert code_of(error.value) == "ResourceInUseException"

    client.delete_stream(StreamARN=described["StreamARN"])
    client.get_waiter("stream_not_exists").wait(
        StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    with pytest.raises(ClientError) as error:
        client.describe_stream(StreamName=name)
    assert code_of(error.value) == "ResourceNotFoundException"
    assert "under account 000000000000 not found" in str(error.value)


def test_lists_have_pages(client: Any, name: str) -> None:
    for at in range(3):
        create_stream(client, f"{name}-{at}", shards=3)

    pages = client.get_paginator("list_streams").paginate(PaginationConfig={"PageSize": 1})
    names = [each for page in pages for each in page["StreamNames"] if each.startswith(name)]
    shards = [
        each["ShardId"]
        for page in client.get_paginator("list_shards").paginate(
            StreamName=f"{name}-0", PaginationConfig={"PageSize": 2}
        )
        for each in page["Shards"]
    ]
    described = [
        each["ShardId"]
        for page in client.get_paginator("describe_stream").paginate(
            StreamName=f"{name}-0", PaginationConfig={"PageSize": 2}
        )
        for each in page["StreamDescription"]["Shards"]
    ]

    assert names == [f"{name}-{at}" for at in range(3)]
    assert shards == described == [f"shardId-{at:012d}" for at in range(3)]


def test_a_topic_of_kafkas_clients_is_not_taken_over(
    client: Any, broker: BrokerProcess, topic: str
) -> None:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        assert Admin(pool).create_topics([NewTopic(topic, 1, 1)]) == {topic: None}

    with pytest.raises(ClientError) as error:
        client.create_stream(StreamName=topic, ShardCount=1)
    assert code_of(error.value) == "ResourceInUseException"
    with pytest.raises(ClientError) as error:
        client.delete_stream(StreamName=topic)
    assert code_of(error.value) == "ResourceNotFoundException"


def test_retention_reaches_the_topic(client: Any, broker: BrokerProcess, stream: str) -> None:
    client.increase_stream_retention_period(StreamName=stream, RetentionPeriodHours=48)
    wait_for_active(client, stream)

    summary = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
    assert summary["RetentionPeriodHours"] == 48
    from headrace.model.config_code import ConfigResourceType

    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        entries = Admin(pool).describe_configs(ConfigResourceType.TOPIC, [stream])[stream]
    assert isinstance(entries, list)
    values = {each.name: each.value for each in entries}
    assert values["retention.ms"] == str(48 * 3_600_000)
    with pytest.raises(ClientError) as error:
        client.decrease_stream_retention_period(StreamName=stream, RetentionPeriodHours=23)
    assert code_of(error.value) == "InvalidArgumentException"


def test_tags(client: Any, stream: str) -> None:
    arn = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
    client.add_tags_to_stream(StreamName=stream, Tags={"a": "1", "b": "2"})
    client.tag_resource(ResourceARN=arn, Tags={"c": "3"})
    client.remove_tags_from_stream(StreamName=stream, TagKeys=["a"])
    client.untag_resource(ResourceARN=arn, TagKeys=["b"])

    assert client.list_tags_for_stream(StreamName=stream)["Tags"] == [{"Key": "c", "Value": "3"}]
    assert client.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "c", "Value": "3"}]


def test_registered_consumers(client: Any, stream: str) -> None:
    arn = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
    one = client.register_stream_consumer(StreamARN=arn, ConsumerName="one")["Consumer"]
    client.register_stream_consumer(StreamARN=arn, ConsumerName="two")

    pages = client.get_paginator("list_stream_consumers").paginate(
        StreamARN=arn, PaginationConfig={"PageSize": 1}
    )
    assert [each["ConsumerName"] for page in pages for each in page["Consumers"]] == ["one", "two"]
    described = client.describe_stream_consumer(ConsumerARN=one["ConsumerARN"])
    assert described["ConsumerDescription"]["StreamARN"] == arn
    with pytest.raises(ClientError) as error:
        client.register_stream_consumer(StreamARN=arn, ConsumerName="one")
    assert code_of(error.value) == "ResourceInUseException"
    client.deregister_stream_consumer(StreamARN=arn, ConsumerName="one")
    with pytest.raises(ClientError) as error:
        client.describe_stream_consumer(StreamARN=arn, ConsumerName="one")
    assert code_of(error.value) == "ResourceNotFoundException"


# -- records


def test_what_is_put_is_read_by_kinesis_and_by_kafka(
    client: Any, broker: BrokerProcess, stream: str
) -> None:
    put = client.put_record(StreamName=stream, Data=b"\0one\xff", PartitionKey="clé")
    rest = client.put_records(
        StreamName=stream,
        Records=[
            {"Data": b"two", "PartitionKey": "b"},
            {"Data": b"", "PartitionKey": "c", "ExplicitHashKey": "17"},
        ],
    )

    assert rest["FailedRecordCount"] == 0
    numbers = [put["SequenceNumber"], *(each["SequenceNumber"] for each in rest["Records"])]
    assert all(len(each) == 56 for each in numbers)
    assert sorted(numbers, key=int) == numbers
    records = read_shard(client, stream, FIRST)
    assert [(each["PartitionKey"], each["Data"]) for each in records] == [
        ("clé", b"\0one\xff"),
        ("b", b"two"),
        ("c", b""),
    ]
    assert [each["SequenceNumber"] for each in records] == numbers
    age = datetime.now(UTC) - records[0]["ApproximateArrivalTimestamp"]
    assert abs(age.total_seconds()) < 60
    messages = read_topic(broker.address, stream)[0]
    assert [(each.key, each.value) for each in messages] == [
        ("clé".encode(), b"\0one\xff"),
        (b"b", b"two"),
        (b"c", b""),
    ]
    assert messages[2].headers == [("kinesis.explicit-hash-key", b"17")]


def test_iterators_of_every_type(client: Any, stream: str) -> None:
    numbers = [
        client.put_record(StreamName=stream, Data=b"%d" % at, PartitionKey="k")["SequenceNumber"]
        for at in range(3)
    ]
    latest = client.get_shard_iterator(
        StreamName=stream, ShardId=FIRST, ShardIteratorType="LATEST"
    )["ShardIterator"]
    client.put_record(StreamName=stream, Data=b"3", PartitionKey="k")

    def data(**start: Any) -> list[bytes]:
        return [each["Data"] for each in read_shard(client, stream, FIRST, **start)]

    at = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": numbers[1]}
    after = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": numbers[1]}
    early = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": datetime(2020, 1, 1, tzinfo=UTC)}
    assert data(**at) == [b"1", b"2", b"3"]
    assert data(**after) == [b"2", b"3"]
    assert data(**early) == data() == [b"0", b"1", b"2", b"3"]
    assert [each["Data"] for each in client.get_records(ShardIterator=latest)["Records"]] == [b"3"]
    one = client.get_shard_iterator(
        StreamName=stream, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    page = client.get_records(ShardIterator=one, Limit=3)
    assert [each["Data"] for each in page["Records"]] == [b"0", b"1", b"2"]
    assert page["MillisBehindLatest"] > 0


def test_a_wrong_iterator_and_a_wrong_sequence_number(client: Any, stream: str) -> None:
    iterator = client.get_shard_iterator(
        StreamName=stream, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    raw = bytearray(base64.b64decode(iterator))
    raw[20] ^= 1

    with pytest.raises(ClientError, match="Invalid ShardIterator") as error:
        client.get_records(ShardIterator=base64.b64encode(raw).decode())
    assert code_of(error.value) == "InvalidArgumentException"
    with pytest.raises(ClientError, match="is invalid") as error:
        client.get_shard_iterator(
            StreamName=stream,
            ShardId=FIRST,
            ShardIteratorType="AT_SEQUENCE_NUMBER",
            StartingSequenceNumber="12345",
        )
    assert code_of(error.value) == "InvalidArgumentException"
    with pytest.raises(ClientError, match="does not exist"):
        client.get_shard_iterator(
            StreamName=stream, ShardId="shardId-000000000009", ShardIteratorType="LATEST"
        )


def test_large_records_pass_and_larger_ones_fail_the_whole_request(
    client: Any, stream: str
) -> None:
    largest = b"x" * ((1 << 20) - 1)
    client.put_records(
        StreamName=stream, Records=[{"Data": largest, "PartitionKey": "k"} for _ in range(9)]
    )
    with pytest.raises(ClientError) as error:
        client.put_records(
            StreamName=stream,
            Records=[
                {"Data": b"small", "PartitionKey": "k"},
                {"Data": largest + b"x", "PartitionKey": "k"},
            ],
        )

    assert code_of(error.value) == "ValidationException"
    assert [len(each["Data"]) for each in read_shard(client, stream, FIRST)] == [len(largest)] * 9


def test_a_dry_run_writes_nothing(client: Any, stream: str) -> None:
    with pytest.raises(ClientError) as error:
        client.put_record(StreamName=stream, Data=b"x", PartitionKey="k", DryRun=True)

    assert code_of(error.value) == "DryRunOperationException"
    assert read_shard(client, stream, FIRST) == []


def test_a_plain_topic_is_a_stream_if_it_is_exposed(
    client: Any, broker: BrokerProcess, topic: str
) -> None:
    name = f"plain-{topic}"
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        new = NewTopic(name, 2, 1, configs={"max.message.bytes": "100000"})
        assert Admin(pool).create_topics([new]) == {name: None}
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(name, b"from kafka", partition=0)
    producer.flush()
    wait_until(
        lambda: name in client.list_streams(Limit=10_000)["StreamNames"],
        what="the exposed topic",
        timeout_seconds=90,
    )

    put = client.put_record(
        StreamName=name, Data=b"from kinesis", PartitionKey="k", ExplicitHashKey="0"
    )
    records = read_shard(client, name, FIRST)
    assert put["ShardId"] == FIRST
    assert [each["Data"] for each in records] == [b"from kafka", b"from kinesis"]
    assert "PartitionKey" not in records[0]
    with pytest.raises(ClientError, match="plain Kafka topic"):
        client.delete_stream(StreamName=name)

    entry = {"PartitionKey": "k", "ExplicitHashKey": "0"}
    many = [{"Data": bytes(30_000), **entry} for _ in range(10)]
    assert client.put_records(StreamName=name, Records=many)["FailedRecordCount"] == 0
    with pytest.raises(ClientError, match="less than or equal to 998") as error:
        client.put_records(StreamName=name, Records=[*many, {"Data": bytes(100_000), **entry}])
    assert code_of(error.value) == "ValidationException"


def test_limits_of_a_shard(
    broker: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    allows = TokenBucket.allows
    # No time passes for the limits: reads that take long would never exceed them.
    monkeypatch.setattr(TokenBucket, "allows", lambda bucket, tokens, _: allows(bucket, tokens, 0))
    with kinesis_gateway(broker.address) as server:
        client = kinesis_client(server.url)
        create_stream(client, name)
        answer = client.put_records(
            StreamName=name,
            Records=[{"Data": b"x" * 8192, "PartitionKey": "k"} for _ in range(200)],
        )
        iterator = client.get_shard_iterator(
            StreamName=name, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        client.get_records(ShardIterator=iterator)
        with pytest.raises(ClientError) as error:
            for _ in range(50):
                client.get_records(ShardIterator=iterator)

    failed = [each for each in answer["Records"] if "ErrorCode" in each]
    assert 60 <= answer["FailedRecordCount"] == len(failed) <= 90
    assert {each["ErrorCode"] for each in failed} == {"ProvisionedThroughputExceededException"}
    assert code_of(error.value) == "ProvisionedThroughputExceededException"


def test_many_large_puts_at_once_are_served(client: Any, stream: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def put(at: int) -> str:
        answer = client.put_record(
            StreamName=stream, Data=bytes([at]) * (1 << 18), PartitionKey=str(at)
        )
        text: str = answer["SequenceNumber"]
        return text

    with ThreadPoolExecutor(20) as threads:
        numbers = list(threads.map(put, range(40)))

    records = read_stream(client, stream)
    assert {each["SequenceNumber"] for each in records} == set(numbers)
    assert status(client, stream) == "ACTIVE"
