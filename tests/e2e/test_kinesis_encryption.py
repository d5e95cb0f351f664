"""Encryption at rest: boto3 sees the data, the topic and a gateway without the key do not."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.gateway.kinesis.server import KinesisServer
from testkit.fault.held_stream_tail import HeldStreamTail
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import (
    code_of,
    create_stream,
    kinesis_client,
    read_shard,
    wait_for_active,
)
from testkit.process.kinesis_gateway import kinesis_gateway

FIRST = "shardId-000000000000"
_numbers = itertools.count()


def gateway_with(broker: BrokerProcess, keys: dict[str, bytes]) -> KinesisServer:
    return kinesis_gateway(broker.address, limits=False, master_keys=keys)


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[Any]:
    with gateway_with(broker, {"alias/one": b"1" * 32}) as server:
        yield kinesis_client(server.url)


@pytest.fixture
def stream(client: Any) -> str:
    name = f"encrypted-{next(_numbers)}"
    create_stream(client, name)
    return name


def start(client: Any, stream: str, key: str = "alias/one") -> None:
    client.start_stream_encryption(StreamName=stream, EncryptionType="KMS", KeyId=key)
    wait_for_active(client, stream)


def test_records_are_encrypted_in_the_topic_only(
    client: Any, broker: BrokerProcess, stream: str
) -> None:
    client.put_record(StreamName=stream, Data=b"plain before", PartitionKey="k")
    start(client, stream)
    put = client.put_record(StreamName=stream, Data=b"secret one", PartitionKey="k")
    many = client.put_records(
        StreamName=stream, Records=[{"Data": b"secret two", "PartitionKey": "k"}]
    )
    described = client.describe_stream(StreamName=stream)["StreamDescription"]
    client.stop_stream_encryption(StreamName=stream, EncryptionType="KMS", KeyId="alias/one")
    wait_for_active(client, stream)
    client.put_record(StreamName=stream, Data=b"plain after", PartitionKey="k")

    assert (put["EncryptionType"], many["EncryptionType"]) == ("KMS", "KMS")
    assert (described["EncryptionType"], described["KeyId"]) == ("KMS", "alias/one")
    records = read_shard(client, stream, FIRST)
    assert [(each["Data"], each["EncryptionType"]) for each in records] == [
        (b"plain before", "NONE"),
        (b"secret one", "KMS"),
        (b"secret two", "KMS"),
        (b"plain after", "NONE"),
    ]
    stored = [each.value for each in read_topic(broker.address, stream)[0]]
    assert (stored[0], stored[3]) == (b"plain before", b"plain after")
    assert not any(b"secret" in each for each in stored)


def test_a_subscriber_is_given_the_data(client: Any, stream: str) -> None:
    start(client, stream)
    client.put_record(StreamName=stream, Data=b"secret", PartitionKey="k")
    summary = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
    consumer = client.register_stream_consumer(
        StreamARN=summary["StreamARN"], ConsumerName="reader"
    )["Consumer"]
    events = client.subscribe_to_shard(
        ConsumerARN=consumer["ConsumerARN"],
        ShardId=FIRST,
        StartingPosition={"Type": "TRIM_HORIZON"},
    )["EventStream"]

    records = next(
        each["SubscribeToShardEvent"]["Records"]
        for each in events
        if each["SubscribeToShardEvent"]["Records"]
    )
    events.close()
    assert [(each["Data"], each["EncryptionType"]) for each in records] == [(b"secret", "KMS")]


def test_a_gateway_without_the_key_neither_encrypts_nor_writes_plain_records(
    client: Any, broker: BrokerProcess, stream: str
) -> None:
    start(client, stream)
    client.put_record(StreamName=stream, Data=b"secret", PartitionKey="k")
    with gateway_with(broker, {}) as server:
        other = kinesis_client(server.url)
        iterator = other.get_shard_iterator(
            StreamName=stream, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for use in (
            lambda: other.put_record(StreamName=stream, Data=b"plain", PartitionKey="k"),
            lambda: other.get_records(ShardIterator=iterator),
            lambda: start(other, stream, "alias/two"),
        ):
            with pytest.raises(ClientError, match="without --encryption-keys") as error:
                use()
            assert code_of(error.value) == "KMSNotFoundException"

    assert len(read_topic(broker.address, stream)[0]) == 1


def test_a_record_whose_key_is_gone_names_it_and_can_be_passed(
    client: Any, broker: BrokerProcess, stream: str
) -> None:
    client.put_record(StreamName=stream, Data=b"before", PartitionKey="k")
    start(client, stream)
    lost = client.put_record(StreamName=stream, Data=b"secret", PartitionKey="k")
    client.stop_stream_encryption(StreamName=stream, EncryptionType="KMS", KeyId="alias/one")
    wait_for_active(client, stream)
    client.put_record(StreamName=stream, Data=b"after", PartitionKey="k")

    with gateway_with(broker, {}) as server:
        other = kinesis_client(server.url)
        iterator = other.get_shard_iterator(
            StreamName=stream, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        page = other.get_records(ShardIterator=iterator)
        assert [each["Data"] for each in page["Records"]] == [b"before"]
        assert page["MillisBehindLatest"] > 0
        number = lost["SequenceNumber"]
        with pytest.raises(ClientError, match=rf"{number} .*alias/one is not known") as error:
            other.get_records(ShardIterator=page["NextShardIterator"])
        assert code_of(error.value) == "KMSNotFoundException"
        passed = read_shard(
            other,
            stream,
            FIRST,
            ShardIteratorType="AFTER_SEQUENCE_NUMBER",
            StartingSequenceNumber=number,
        )
        assert [each["Data"] for each in passed] == [b"after"]


def test_an_instance_with_an_old_view_writes_nothing_plain_once_the_stream_is_active(
    client: Any, broker: BrokerProcess, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway_with(broker, {"alias/one": b"1" * 32}) as server:
        stale = kinesis_client(server.url)
        stale.put_record(StreamName=stream, Data=b"plain before", PartitionKey="k")
        held = HeldStreamTail(server, monkeypatch)
        start(client, stream)
        assert held.tail.streams[stream].data_key is None
        answers: list[dict[str, Any]] = []
        put = threading.Thread(
            target=lambda: answers.append(
                stale.put_record(StreamName=stream, Data=b"secret", PartitionKey="k")
            )
        )
        put.start()
        put.join(0.5)
        assert len(read_topic(broker.address, stream)[0]) == 1, "nothing is written yet"
        held.release()
        put.join(60)

    assert answers[0]["EncryptionType"] == "KMS"
    stored = [each.value for each in read_topic(broker.address, stream)[0]]
    assert len(stored) == 2 and b"secret" not in stored[1]
    assert [each["Data"] for each in read_shard(client, stream, FIRST)][1:] == [b"secret"]


def test_wrong_requests(client: Any, stream: str) -> None:
    for call, code in (
        (lambda: start(client, stream, "alias/none"), "KMSNotFoundException"),
        (
            lambda: client.stop_stream_encryption(
                StreamName=stream, EncryptionType="KMS", KeyId="alias/one"
            ),
            "InvalidArgumentException",
        ),
        (
            lambda: client.start_stream_encryption(
                StreamName=stream, EncryptionType="NONE", KeyId="alias/one"
            ),
            "InvalidArgumentException",
        ),
    ):
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error.value) == code
