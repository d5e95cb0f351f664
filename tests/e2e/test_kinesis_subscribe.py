"""SubscribeToShard: boto3 is given records as they are put."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.gateway.kinesis import subscription
from headrace.gateway.kinesis.server import KinesisServer
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client
from testkit.process.kinesis_gateway import kinesis_gateway

FIRST = "shardId-000000000000"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    with kinesis_gateway(broker.address, limits=False) as server:
        yield server


@pytest.fixture
def client(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url)


@pytest.fixture
def stream(client: Any) -> str:
    name = f"subscribed-{next(_numbers)}"
    create_stream(client, name)
    return name


@pytest.fixture
def consumer(client: Any, stream: str) -> str:
    arn = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
    made = client.register_stream_consumer(StreamARN=arn, ConsumerName="one")["Consumer"]
    text: str = made["ConsumerARN"]
    return text


_subscriptions: list[Any] = []


@pytest.fixture(autouse=True)
def _disconnected() -> Iterator[None]:
    """boto3 leaves the connection of a subscription that is not read to its end to us."""
    yield
    for each in _subscriptions:
        each.close()
    _subscriptions.clear()


def subscribe(client: Any, consumer: str, kind: str = "TRIM_HORIZON", **more: Any) -> Any:
    answer = client.subscribe_to_shard(
        ConsumerARN=consumer, ShardId=FIRST, StartingPosition={"Type": kind, **more}
    )
    _subscriptions.append(answer["EventStream"])
    return answer["EventStream"]


def events_with_records(events: Any) -> Iterator[dict[str, Any]]:
    for each in events:
        if each["SubscribeToShardEvent"]["Records"]:
            yield each["SubscribeToShardEvent"]


def test_records_are_pushed_and_the_continuation_goes_on_after_them(
    client: Any, stream: str, consumer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "TAKE_OVER_SECONDS", 0.0)
    client.put_record(StreamName=stream, Data=b"before", PartitionKey="k")
    events = subscribe(client, consumer)
    pushed = events_with_records(events)
    first = next(pushed)
    client.put_record(StreamName=stream, Data=b"meanwhile", PartitionKey="k")
    second = next(pushed)
    events.close()
    client.put_record(StreamName=stream, Data=b"later", PartitionKey="k")

    again = subscribe(
        client,
        consumer,
        "AFTER_SEQUENCE_NUMBER",
        SequenceNumber=second["ContinuationSequenceNumber"],
    )
    third = next(events_with_records(again))
    again.close()
    assert [each["Records"][0]["Data"] for each in (first, second, third)] == [
        b"before",
        b"meanwhile",
        b"later",
    ]


def test_an_event_is_small_enough_for_every_client_to_hold_one(
    client: Any, stream: str, consumer: str
) -> None:
    for _ in range(4):
        client.put_record(StreamName=stream, Data=bytes(400_000), PartitionKey="k")

    sizes: list[int] = []
    for each in events_with_records(subscribe(client, consumer)):
        sizes.append(sum(len(record["Data"]) for record in each["Records"]))
        if sum(sizes) == 4 * 400_000:
            break

    assert max(sizes) <= 1 << 20


def test_the_continuation_of_an_empty_shard_skips_nothing(
    client: Any, stream: str, consumer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "TAKE_OVER_SECONDS", 0.0)
    monkeypatch.setattr(subscription, "_IDLE_SECONDS", 0.0)
    events = subscribe(client, consumer)
    number = next(iter(events))["SubscribeToShardEvent"]["ContinuationSequenceNumber"]
    events.close()
    client.put_record(StreamName=stream, Data=b"first", PartitionKey="k")

    again = subscribe(client, consumer, "AFTER_SEQUENCE_NUMBER", SequenceNumber=number)
    assert next(events_with_records(again))["Records"][0]["Data"] == b"first"
    again.close()


def test_the_last_event_of_a_closed_shard_names_its_children(
    client: Any, stream: str, consumer: str
) -> None:
    client.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    events = subscribe(client, consumer)
    client.split_shard(StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey=str(2**127))

    seen = [each["SubscribeToShardEvent"] for each in events]
    assert [record["Data"] for each in seen for record in each["Records"]] == [b"x"]
    assert [each["ShardId"] for each in seen[-1]["ChildShards"]] == [
        "shardId-000000000001",
        "shardId-000000000002",
    ]
    assert "ContinuationSequenceNumber" not in seen[-1]


def test_a_second_subscription_is_refused_at_first_and_takes_over_later(
    client: Any, stream: str, consumer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "TAKE_OVER_SECONDS", 600.0)
    first = subscribe(client, consumer)
    with pytest.raises(ClientError) as error:
        subscribe(client, consumer)
    assert error.value.response["Error"]["Code"] == "ResourceInUseException"

    monkeypatch.setattr(subscription, "TAKE_OVER_SECONDS", 0.0)
    second = subscribe(client, consumer)
    ended = threading.Thread(target=lambda: list(first))
    ended.start()
    ended.join(90)
    assert not ended.is_alive(), "the first subscription ends"
    client.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    assert next(events_with_records(second))["Records"][0]["Data"] == b"x"
    second.close()


def test_a_subscription_ends_with_its_stream(client: Any, stream: str, consumer: str) -> None:
    events = subscribe(client, consumer)
    client.delete_stream(StreamName=stream, EnforceConsumerDeletion=True)

    with pytest.raises(ClientError, match=r"ResourceNotFoundException|InternalFailure"):
        for _ in events:
            pass


def test_a_client_that_goes_away_frees_its_subscription(
    gateway: KinesisServer, client: Any, stream: str, consumer: str
) -> None:
    events = subscribe(client, consumer)
    running = gateway._app._subscriptions
    assert any(stream in name for name, _ in list(running._running))
    events.close()

    wait_until(
        lambda: not any(stream in name for name, _ in list(running._running)),
        what="the end of the subscription",
        timeout_seconds=90,
    )
