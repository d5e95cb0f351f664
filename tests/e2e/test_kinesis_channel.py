"""Channels by boto3: every record lies in a file once, through a reshard and a gateway's death."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.stream.reshard_plan import plan_split
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.process.kinesis_client import kinesis_client, wait_for_active
from testkit.process.kinesis_process import KinesisProcess

ROLE = "arn:aws:iam::000000000000:role/delivery"
_numbers = itertools.count()


@contextmanager
def gateway(broker: BrokerProcess, lake: Path, **options: Any) -> Iterator[KinesisServer]:
    settings = KinesisSettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        limits=False,
        channels_to=str(lake),
        master_keys={"alias/one": b"1" * 32},
        **options,
    )
    with KinesisServer(settings) as server:
        yield server


@pytest.fixture
def stream() -> str:
    return f"landed-{next(_numbers)}"


def create_stream(client: Any, name: str) -> None:
    client.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    wait_for_active(client, name)


def create_channel(client: Any, stream: str, record_format: str = "STRING") -> str:
    """Create a channel of the stream's name, and return its ARN when it is active."""
    summary = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
    created = client.create_channel(
        ChannelName=stream,
        ServiceExecutionRoleARN=ROLE,
        StreamConfigurationList=[
            {
                "StreamARN": summary["StreamARN"],
                "RecordConfiguration": {"RecordFormatType": record_format},
            }
        ],
        S3DestinationConfiguration={
            "DataFreshnessInSeconds": 1,
            "StorageConfiguration": {
                "BucketARN": "arn:aws:s3:::lake",
                "ExpectedBucketOwner": "000000000000",
                "CompressionType": "ZSTD",
            },
        },
    )["ChannelDescription"]
    arn: str = created["ChannelARN"]
    waiter = client.get_waiter("channel_active")
    waiter.wait(ChannelARN=arn, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    return arn


def put(client: Any, stream: str, numbers: range) -> list[str]:
    texts = [f"record {at}" for at in numbers]
    records = [{"Data": each.encode(), "PartitionKey": each} for each in texts]
    answer = client.put_records(StreamName=stream, Records=records)
    assert answer["FailedRecordCount"] == 0
    return texts


def landed(lake: Path, column: str = "data") -> list[Any]:
    """Return a column of all files, as a reader of the folder sees them."""
    if not lake.joinpath("lake").exists():
        return []
    table = pyarrow.dataset.dataset(lake / "lake", format="parquet").to_table()
    return sorted(table[column].to_pylist()) if table.num_columns else []


def split_first_shard(server: KinesisServer, client: Any, name: str) -> None:
    """As the scaler does: SplitShard itself is for provisioned streams."""

    def step(stream: StreamState | None) -> StreamState | None:
        assert stream is not None
        shard = stream.open_shards[0]
        middle = (shard.keys.start + shard.keys.end) // 2
        now_ms = time.time_ns() // 1_000_000
        return stream.announced(plan_split(stream, "000000000000", shard.id, middle, now_ms))

    server._app.service.keeper.change(name, step)
    wait_for_active(client, name)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, what=what, timeout_seconds=90)


def test_every_record_is_landed_once_through_a_reshard_and_the_death_of_a_gateway(
    broker: BrokerProcess, tmp_path: Path, stream: str
) -> None:
    lake = tmp_path / "lake"
    options = ("--no-limits", "--channels-to", str(lake))
    with KinesisProcess(tmp_path / "doomed", broker.address, *options) as doomed:
        client = kinesis_client(doomed.url)
        create_stream(client, stream)
        put(client, stream, range(1))  # before there is a channel
        arn = create_channel(client, stream)
        with gateway(broker, lake) as server:
            survivor = kinesis_client(server.url)
            expected = put(client, stream, range(100, 200))
            wait_for(lambda: landed(lake) == sorted(expected), "the first file")
            expected += put(client, stream, range(200, 300))
            split_first_shard(server, survivor, stream)
            expected += put(survivor, stream, range(300, 400))
            doomed.kill()
            expected += put(survivor, stream, range(400, 500))

            wait_for(lambda: len(landed(lake)) >= len(expected), "all records")
            assert landed(lake) == sorted(expected)
            shards = set(landed(lake, "shardId"))
            assert {"shardId-000000000004", "shardId-000000000005"} <= shards
            numbers = landed(lake, "sequenceNumber")
            assert len(set(numbers)) == len(numbers)
            shown = run_headrace("kinesis", "channel", "list", "-b", broker.address)
            assert stream in shown.out and "ACTIVE" in shown.out
            delete_channel(survivor, stream, arn)


def test_an_encrypted_stream_is_landed_in_plain_text_until_its_channel_is_deleted(
    broker: BrokerProcess, tmp_path: Path, stream: str
) -> None:
    with gateway(broker, tmp_path) as server:
        client = kinesis_client(server.url)
        create_stream(client, stream)
        client.start_stream_encryption(StreamName=stream, EncryptionType="KMS", KeyId="alias/one")
        wait_for_active(client, stream)
        arn = create_channel(client, stream, "BYTE_ARRAY")
        put(client, stream, range(3))
        wait_for(lambda: len(landed(tmp_path)) == 3, "the file")
        assert landed(tmp_path) == [b"record 0", b"record 1", b"record 2"]

        with pytest.raises(client.exceptions.ResourceInUseException):
            client.delete_stream(StreamName=stream)
        delete_channel(client, stream, arn)
        put(client, stream, range(3, 6))
        client.delete_stream(StreamName=stream)

        assert len(landed(tmp_path)) == 3
        assert not list(tmp_path.rglob("*.tmp"))


def delete_channel(client: Any, name: str, arn: str) -> None:
    client.delete_channel(ChannelARN=arn)
    wait_for(lambda: name not in channel_names(client), "the end of the channel")


def channel_names(client: Any) -> list[str]:
    pages = client.get_paginator("list_channels").paginate()
    return [each["ChannelName"] for page in pages for each in page["ChannelSummaries"]]


def test_a_place_that_cannot_be_written_is_shown_and_tried_again(
    broker: BrokerProcess, tmp_path: Path, stream: str
) -> None:
    lake = tmp_path / "lake"
    lake.write_text("a file where the folder should be")
    with gateway(broker, lake) as server:
        client = kinesis_client(server.url)
        create_stream(client, stream)
        summary = client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        arn = summary["StreamARN"].replace("stream/", "channel/")

        def reason() -> str:
            described = client.describe_channel(ChannelARN=arn)["ChannelDescription"]
            text: str = described.get("ChannelStatusReason", "")
            return text

        def mend() -> None:
            wait_for(lambda: "not delivered" in reason(), "the reason")
            lake.unlink()

        client.meta.events.register_last("after-call.kinesis.CreateChannel", lambda **_: mend())
        create_channel(client, stream)

        assert reason() == ""
        put(client, stream, range(2))
        wait_for(lambda: len(landed(lake)) == 2, "the file")
        delete_channel(client, stream, arn)
