"""Streams of a real Kinesis gateway in the console."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.store.stream_topic import STREAM_TOPIC
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient
from testkit.process.kinesis_client import create_stream, kinesis_client, wait_for_active

MIDDLE = str(2**127)


@pytest.fixture(scope="module")
def kinesis(broker: BrokerProcess) -> Iterator[Any]:
    settings = ClientSettings.of({"bootstrap.servers": broker.address})
    gateway = KinesisSettings(client=settings, listen=Address("127.0.0.1", 0), limits=False)
    with KinesisServer(gateway) as server:
        client = kinesis_client(server.url)
        create_stream(client, "clicks-shown")
        client.put_record(StreamName="clicks-shown", Data=b"one", PartitionKey="a")
        client.split_shard(
            StreamName="clicks-shown",
            ShardToSplit="shardId-000000000000",
            NewStartingHashKey=MIDDLE,
        )
        wait_for_active(client, "clicks-shown")
        yield client


def shown(client: ConsoleClient) -> dict[str, Any] | None:
    streams = client.get("streams").json()["streams"]
    return next((each for each in streams if each["name"] == "clicks-shown"), None)


def test_a_stream_shows_its_shards_open_and_closed(kinesis: Any, client: ConsoleClient) -> None:
    def split() -> bool:
        stream = shown(client)
        return stream is not None and (stream["open"], stream["closed"]) == (2, 1)

    wait_until(split, what="the split in the console", timeout_seconds=60)
    stream = shown(client)
    assert stream is not None
    by_id = {each["id"][-1]: each for each in stream["shards"]}
    assert (by_id["0"]["open"], by_id["0"]["records"]) == (False, 1)
    assert [by_id[each]["keys"] for each in "012"] == [[0, 1], [0, 0.5], [0.5, 1]]
    assert by_id["2"]["parents"] == ["shardId-000000000000"]
    assert by_id["0"]["created_ms"] < by_id["0"]["closed_ms"]


def test_a_stream_that_is_deleted_is_gone(kinesis: Any, client: ConsoleClient) -> None:
    create_stream(kinesis, "clicks-gone")

    def names() -> list[str]:
        return [each["name"] for each in client.get("streams").json()["streams"]]

    wait_until(lambda: "clicks-gone" in names(), what="the stream", timeout_seconds=60)
    kinesis.delete_stream(StreamName="clicks-gone")
    wait_until(lambda: "clicks-gone" not in names(), what="its end", timeout_seconds=60)


def test_no_user_writes_into_the_topic_of_streams(kinesis: Any, client: ConsoleClient) -> None:
    body = {"value": "{}", "key": "clicks-shown"}
    refused = client.post(f"topics/{STREAM_TOPIC}/messages", body)
    assert refused.status == 403
