"""The source kinesis against a real gateway: tests call it as Spark does, without a session."""

import itertools
import pickle
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import (
    BinaryType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.spark import KinesisDataSource
from headrace.spark.source.data_loss import DataLoss
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client, wait_for_active

FIRST = "shardId-000000000000"
KEYS = [f"key-{at}" for at in range(4)]
SECRET = "a-secret-that-is-nowhere"
SCHEMA = StructType(
    [
        StructField("data", BinaryType()),
        StructField("streamName", StringType()),
        StructField("partitionKey", StringType()),
        StructField("sequenceNumber", StringType()),
        StructField("approximateArrivalTimestamp", TimestampType()),
    ]
)
ALL = ReadAllAvailable()
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    settings = KinesisSettings(
        client=client, listen=Address("127.0.0.1", 0), master_keys={"alias/one": b"1" * 32}
    )
    with KinesisServer(settings) as server:
        yield server


@pytest.fixture
def client(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url)


@pytest.fixture
def stream(client: Any) -> str:
    name = f"source-{next(_numbers)}"
    create_stream(client, name)
    return name


@pytest.fixture
def options(gateway: KinesisServer, stream: str) -> dict[str, str]:
    return {
        "kinesis.streamName": stream,
        "kinesis.endpointUrl": gateway.url,
        "kinesis.awsAccessKeyId": "test",
        "kinesis.awsSecretKey": SECRET,
        "kinesis.describeShardInterval": "100ms",
        "kinesis.startingPosition": "TRIM_HORIZON",
    }


class Query:
    """A streaming query: the offsets of its checkpoint, and what its tasks got."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self.restart()
        self.position = self._reader.initialOffset()
        self.seen: dict[str, list[int]] = defaultdict(list)

    def restart(self) -> None:
        """Forget everything but the checkpoint."""
        self._reader: Any = KinesisDataSource(self._options).streamReader(SCHEMA)

    def run(self, *, dies: bool = False) -> bool:
        """Run a micro-batch; if the driver dies, the next one runs it from the stored offsets."""
        end = self._reader.latestOffset(self.position, ALL)
        if end == self.position:
            return False
        if dies:
            self.restart()
        task = pickle.loads(pickle.dumps(self._reader))
        for partition in self._reader.partitions(self.position, end):
            for batch in task.read(pickle.loads(pickle.dumps(partition))):
                for row in batch.to_pylist():
                    self.seen[row["partitionKey"]].append(int(row["data"]))
        self.position = end
        return True

    def count(self) -> int:
        return sum(map(len, self.seen.values()))


class Putter:
    """Puts 0, 1, 2 ... under each key."""

    def __init__(self, client: Any, stream: str) -> None:
        self._client, self._stream = client, stream
        self.written = 0

    def put(self, count: int) -> None:
        numbers = range(self.written, self.written + count)
        records = [
            {"Data": str(at).encode(), "PartitionKey": key} for at in numbers for key in KEYS
        ]
        answer = self._client.put_records(StreamName=self._stream, Records=records)
        assert answer["FailedRecordCount"] == 0
        self.written += count


def open_shards(client: Any, stream: str) -> list[str]:
    shards = client.list_shards(StreamName=stream, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    shards.sort(key=lambda each: int(each["HashKeyRange"]["StartingHashKey"]))
    return [each["ShardId"] for each in shards]


def test_a_split_a_merge_and_restarts_lose_and_repeat_nothing(
    client: Any, stream: str, options: dict[str, str]
) -> None:
    putter, query = Putter(client, stream), Query(options)
    putter.put(10)
    query.run()
    client.split_shard(StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey="9" * 38)
    putter.put(10)
    query.run(dies=True)
    wait_for_active(client, stream)
    putter.put(10)
    query.run(dies=True)
    one, other = open_shards(client, stream)
    client.merge_shards(StreamName=stream, ShardToMerge=one, AdjacentShardToMerge=other)
    putter.put(10)
    query.run()
    wait_for_active(client, stream)
    query.restart()
    putter.put(10)
    while query.count() < 4 * putter.written:
        query.run(dies=True)

    assert query.seen == {key: [*range(putter.written)] for key in KEYS}
    assert not query.run()
    shards = [each for each in sorted(query.position[stream]) if each.startswith("shardId")]
    assert [query.position[stream][each] for each in shards][:3] == ["SHARD_END"] * 3
    assert SECRET not in str(query.position)


def test_a_stream_that_was_created_again_while_the_query_was_down_is_read(
    client: Any, stream: str, options: dict[str, str]
) -> None:
    putter, query = Putter(client, stream), Query(options)
    putter.put(1)
    client.split_shard(StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey="9" * 38)
    wait_for_active(client, stream)
    while query.position[stream].get(FIRST) != "SHARD_END":
        query.run()
    client.delete_stream(StreamName=stream)
    wait_until(lambda: stream not in client.list_streams()["StreamNames"], what="the deletion")
    create_stream(client, stream)
    putter.put(1)

    strict = Query(options | {"kinesis.failOnDataLoss": "true"})
    strict.position = query.position
    with pytest.raises(DataLoss, match="created again"):
        strict.run()
    query.restart()
    assert query.run(dies=True)

    assert query.seen == {key: [0, 1] for key in KEYS}


def test_a_stream_that_is_encrypted_meanwhile_is_read(
    client: Any, stream: str, options: dict[str, str]
) -> None:
    putter, query = Putter(client, stream), Query(options)
    putter.put(2)
    query.run()
    client.start_stream_encryption(StreamName=stream, EncryptionType="KMS", KeyId="alias/one")
    putter.put(2)
    wait_for_active(client, stream)
    putter.put(2)
    while query.count() < 4 * putter.written:
        query.run(dies=True)

    assert query.seen == {key: [*range(6)] for key in KEYS}


def test_latest_is_pinned_by_an_empty_batch(
    client: Any, stream: str, options: dict[str, str]
) -> None:
    putter = Putter(client, stream)
    putter.put(1)
    query = Query(options | {"kinesis.startingPosition": "LATEST"})

    assert not query.run()
    putter.put(1)
    while not query.run():
        pass

    assert query.seen == {key: [1] for key in KEYS}


def test_a_batch_reads_every_shard_that_there_was(
    client: Any, stream: str, options: dict[str, str]
) -> None:
    putter = Putter(client, stream)
    putter.put(5)
    client.split_shard(StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey="9" * 38)
    putter.put(5)
    reader: Any = KinesisDataSource(options).reader(SCHEMA)

    rows = [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]

    assert sorted(int(row["data"]) for row in rows if row["partitionKey"] == "key-0") == [
        *range(10)
    ]
    assert len({row["sequenceNumber"] for row in rows}) == 40
    assert {row["streamName"] for row in rows} == {stream}
    assert all(row["approximateArrivalTimestamp"].year >= 2024 for row in rows)
