"""On-demand streams, warm throughput, even distribution and the account's settings, by boto3."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.limit.demand import ScalingRule
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import code_of, kinesis_client, read_stream, wait_for_active

_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    settings = KinesisSettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        limits=False,
        scaling=ScalingRule(window_seconds=0.5, calm_seconds=3.0, most_shards=12),
    )
    with KinesisServer(settings) as server:
        yield server


@pytest.fixture
def client(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url)


@pytest.fixture
def stream(client: Any) -> str:
    """An on-demand stream."""
    name = f"demand-{next(_numbers)}"
    client.create_stream(StreamName=name, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    wait_for_active(client, name)
    return name


def summary_of(client: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client.describe_stream_summary(StreamName=name)[
        "StreamDescriptionSummary"
    ]
    return found


def arn_of(client: Any, name: str) -> str:
    text: str = summary_of(client, name)["StreamARN"]
    return text


def set_commitment(client: Any, status: str) -> dict[str, Any]:
    answer = client.update_account_settings(MinimumThroughputBillingCommitment={"Status": status})
    found: dict[str, Any] = answer["MinimumThroughputBillingCommitment"]
    return found


def test_a_stream_grows_with_its_traffic_and_shrinks_after_it(client: Any, stream: str) -> None:
    sent: list[bytes] = []
    most = 0

    def shard_count() -> int:
        nonlocal most
        count: int = summary_of(client, stream)["OpenShardCount"]
        most = max(most, count)
        return count

    def has_grown() -> bool:
        records = []
        for _ in range(8):
            sent.append(b"%d" % len(sent))
            records.append({"Data": sent[-1] + b" " * (256 << 10), "PartitionKey": f"{len(sent)}"})
        assert client.put_records(StreamName=stream, Records=records)["FailedRecordCount"] == 0
        return shard_count() > 4

    wait_until(has_grown, what="more shards")
    wait_until(lambda: shard_count() <= most // 2 + 1 < most, what="fewer shards")
    assert 4 < most <= 12 and shard_count() >= 4
    wait_for_active(client, stream)
    assert sorted(each["Data"].strip() for each in read_stream(client, stream)) == sorted(sent)


def test_the_shards_of_an_on_demand_stream_are_not_the_users(client: Any, stream: str) -> None:
    first, second = "shardId-000000000000", "shardId-000000000001"
    for change in (
        lambda: client.update_shard_count(
            StreamName=stream, TargetShardCount=8, ScalingType="UNIFORM_SCALING"
        ),
        lambda: client.merge_shards(
            StreamName=stream, ShardToMerge=first, AdjacentShardToMerge=second
        ),
        lambda: client.split_shard(
            StreamName=stream, ShardToSplit=first, NewStartingHashKey="1000"
        ),
    ):
        with pytest.raises(ClientError, match="PROVISIONED mode") as error:
            change()
        assert code_of(error.value) == "ValidationException"


def test_the_mode_changes_both_ways_and_keeps_the_shards(client: Any, stream: str) -> None:
    arn = arn_of(client, stream)
    client.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "PROVISIONED"})
    wait_for_active(client, stream)
    summary = summary_of(client, stream)
    client.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    wait_for_active(client, stream)

    assert summary["StreamModeDetails"] == {"StreamMode": "PROVISIONED"}
    assert (summary["OpenShardCount"], "WarmThroughput" in summary) == (4, False)
    assert summary_of(client, stream)["StreamModeDetails"] == {"StreamMode": "ON_DEMAND"}


def test_even_distribution_ignores_keys(client: Any, stream: str) -> None:
    client.update_stream_record_distribution_strategy(
        StreamARN=arn_of(client, stream), RecordDistributionStrategy="AUTO"
    )
    client.put_record(StreamName=stream, Data=b"without a key")
    records = [{"Data": b"%d" % at, "PartitionKey": "one key"} for at in range(60)]
    answer = client.put_records(StreamName=stream, Records=records)

    assert len({each["ShardId"] for each in answer["Records"]}) == 4
    assert summary_of(client, stream)["RecordDistributionStrategy"] == "AUTO"
    keys = [each.get("PartitionKey") for each in read_stream(client, stream)]
    assert (keys.count(None), keys.count("one key")) == (1, 60)
    with pytest.raises(ClientError, match="ON_DEMAND") as error:
        client.create_stream(
            StreamName="even-and-provisioned", ShardCount=1, RecordDistributionStrategy="AUTO"
        )
    assert code_of(error.value) == "InvalidArgumentException"


def test_warm_throughput_needs_the_accounts_commitment(client: Any, stream: str) -> None:
    if client.describe_account_settings()["MinimumThroughputBillingCommitment"] == {
        "Status": "DISABLED"
    }:
        with pytest.raises(ClientError, match="UpdateAccountSettings") as error:
            client.update_stream_warm_throughput(StreamName=stream, WarmThroughputMiBps=6)
        assert code_of(error.value) == "ValidationException"

    enabled = set_commitment(client, "ENABLED")
    assert enabled["Status"] == "ENABLED"
    assert (enabled["EarliestAllowedEndAt"] - enabled["StartedAt"]).total_seconds() == 24 * 3600
    answer = client.update_stream_warm_throughput(StreamName=stream, WarmThroughputMiBps=10)
    assert answer["WarmThroughput"] == {"TargetMiBps": 10, "CurrentMiBps": 4}
    wait_for_active(client, stream)
    assert summary_of(client, stream)["WarmThroughput"] == {"TargetMiBps": 10, "CurrentMiBps": 10}
    with pytest.raises(ClientError, match="at most 12 MiBps") as error:
        client.update_stream_warm_throughput(StreamName=stream, WarmThroughputMiBps=13)
    assert code_of(error.value) == "LimitExceededException"

    assert set_commitment(client, "DISABLED")["Status"] == "ENABLED_UNTIL_EARLIEST_ALLOWED_END"
    described = client.describe_account_settings()["MinimumThroughputBillingCommitment"]
    assert described["EndedAt"] == described["EarliestAllowedEndAt"]
    assert described["StartedAt"].timestamp() <= time.time() + 1
