"""The format kinesis on a real session and a real gateway: resharding, a restart, exact totals."""

import importlib.util
import itertools
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import HTTPClientError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.spark import KinesisDataSource
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import (
    create_stream,
    kinesis_client,
    read_stream,
    wait_for_active,
)
from testkit.sample.example_runner import EXAMPLES

FIRST = "shardId-000000000000"
KEYS = [f"key-{at}" for at in range(4)]
SECRET = "a-secret-that-is-nowhere"
_SECONDS = 300.0
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    with KinesisServer(KinesisSettings(client=client, listen=Address("127.0.0.1", 0))) as server:
        # It serves when it has read the streams, which takes long beside a starting Spark.
        wait_until(lambda: _answers(server), what="the gateway", timeout_seconds=_SECONDS)
        yield server


def _answers(server: KinesisServer) -> bool:
    try:
        kinesis_client(server.url).list_streams()
    except HTTPClientError:
        return False
    return True


@pytest.fixture
def client(gateway: KinesisServer) -> Any:
    return kinesis_client(gateway.url)


@pytest.fixture
def stream(client: Any) -> str:
    name = f"spark-{next(_numbers)}"
    create_stream(client, name)
    return name


@pytest.fixture
def options(gateway: KinesisServer, stream: str, spark: SparkSession) -> dict[str, str]:
    spark.dataSource.register(KinesisDataSource)
    return {
        "kinesis.streamName": stream,
        "kinesis.endpointUrl": gateway.url,
        "kinesis.awsAccessKeyId": "test",
        "kinesis.awsSecretKey": SECRET,
        "kinesis.clientRetryIntervalsMs": "200",
    }


class Putter:
    """Puts 0, 1, 2 ... under each key in a thread, until it is stopped."""

    def __init__(self, client: Any, stream: str) -> None:
        self._client, self._stream = client, stream
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.counts = dict.fromkeys(KEYS, 0)

    def __enter__(self) -> "Putter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            for key in KEYS:
                data = str(self.counts[key]).encode()
                self._client.put_record(StreamName=self._stream, Data=data, PartitionKey=key)
                self.counts[key] += 1


class Collected:
    """What a query's `foreachBatch` got, by batch: a batch that is run again replaces itself."""

    def __init__(self) -> None:
        self._batches: dict[int, list[tuple[str, int]]] = {}
        self.replayed = 0

    def __call__(self, rows: DataFrame, number: int) -> None:
        found = [(row.partitionKey, int(row.data)) for row in rows.collect()]
        if number in self._batches:
            self.replayed += 1
            assert found == self._batches[number]
        self._batches[number] = found

    def by_key(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for number in sorted(self._batches):
            for key, value in self._batches[number]:
                found[key].append(value)
        return dict(found)

    def count(self) -> int:
        return sum(map(len, [*self._batches.values()]))


def put_numbers(client: Any, stream: str, count: int) -> None:
    for first in range(0, count, 500):
        numbers = range(first, min(count, first + 500))
        records = [{"Data": str(at).encode(), "PartitionKey": KEYS[at % 4]} for at in numbers]
        assert client.put_records(StreamName=stream, Records=records)["FailedRecordCount"] == 0


def open_shards(client: Any, stream: str) -> list[str]:
    shards = client.list_shards(StreamName=stream, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    shards.sort(key=lambda each: int(each["HashKeyRange"]["StartingHashKey"]))
    return [each["ShardId"] for each in shards]


def committed(checkpoint: Path) -> list[int]:
    """Return the micro-batches that are done."""
    return sorted(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))


def forget_last_commit(checkpoint: Path) -> None:
    """Remove the last commit, as if the driver had died before it was written."""
    last = committed(checkpoint)[-1]
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.timeout(900)
def test_a_query_follows_a_split_and_a_merge_and_goes_on_from_its_checkpoint(
    spark: SparkSession, client: Any, stream: str, options: dict[str, str], tmp_path: Path
) -> None:
    checkpoint, collected = tmp_path / "checkpoint", Collected()
    start_at = options | {"kinesis.startingPosition": "TRIM_HORIZON"}
    rows = spark.readStream.format("kinesis").options(**start_at).load()

    def start() -> StreamingQuery:
        writer = rows.writeStream.foreachBatch(collected)
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def more() -> None:
        before = collected.count()
        wait_until(
            lambda: collected.count() > before or query.exception() is not None,
            what="more records",
            timeout_seconds=_SECONDS,
        )

    with Putter(client, stream) as putter:
        query = start()
        try:
            more()
            client.split_shard(StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey="9" * 38)
            wait_for_active(client, stream)
            more()
            wait_until(
                lambda: committed(checkpoint) or query.exception() is not None,
                what="a commit",
                timeout_seconds=_SECONDS,
            )
        finally:
            query.stop()
        forget_last_commit(checkpoint)
        query = start()
        try:
            one, other = open_shards(client, stream)
            client.merge_shards(StreamName=stream, ShardToMerge=one, AdjacentShardToMerge=other)
            wait_for_active(client, stream)
            more()
            putter.stop()
            total = sum(putter.counts.values())
            wait_until(
                lambda: collected.count() >= total or query.exception() is not None,
                what="all records",
                timeout_seconds=_SECONDS,
            )
        finally:
            query.stop()

    assert query.exception() is None
    assert collected.by_key() == {key: [*range(count)] for key, count in putter.counts.items()}
    assert collected.replayed
    stored = [each for each in checkpoint.rglob("*") if each.is_file()]
    assert any(b"SHARD_END" in each.read_bytes() for each in stored)
    assert not any(SECRET.encode() in each.read_bytes() for each in stored)
    assert SECRET not in rows._jdf.queryExecution().toString()


@pytest.mark.timeout(900)
def test_what_is_written_over_the_limit_is_retried_and_read_again(
    spark: SparkSession, options: dict[str, str], client: Any, stream: str, tmp_path: Path
) -> None:
    count = 2_500
    rows = spark.range(count).selectExpr("'k' AS partitionKey", "CAST(id AS STRING) AS data")
    began = time.monotonic()

    rows.write.format("kinesis").mode("append").options(**options).save()

    assert time.monotonic() - began > 1  # a shard takes 1,000 records per second
    read = spark.read.format("kinesis").options(**options).load()
    assert read.columns == [
        "data",
        "streamName",
        "partitionKey",
        "sequenceNumber",
        "approximateArrivalTimestamp",
    ]
    found = read.selectExpr("CAST(data AS STRING)", "streamName", "sequenceNumber").collect()
    assert {int(row.data) for row in found} == set(range(count))
    assert {row.streamName for row in found} == {stream}
    assert len({row.sequenceNumber for row in found}) == len(found)


@pytest.mark.timeout(900)
def test_available_now_copies_a_stream_into_another(
    spark: SparkSession, options: dict[str, str], client: Any, stream: str, tmp_path: Path
) -> None:
    put_numbers(client, stream, 400)
    copy = f"{stream}-copy"
    create_stream(client, copy, 2)
    start_at = options | {"kinesis.startingPosition": "EARLIEST"}
    rows = spark.readStream.format("kinesis").options(**start_at).load()

    query = (
        rows.select("partitionKey", "data")
        .writeStream.format("kinesis")
        .options(**options | {"kinesis.streamName": copy})
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(_SECONDS)
    finally:
        query.stop()

    again = spark.read.format("kinesis").options(**options | {"kinesis.streamName": copy}).load()
    assert sorted(int(row.data) for row in again.collect()) == list(range(400))


@pytest.mark.timeout(900)
def test_the_example_counts_every_click_through_a_split(
    spark: SparkSession, options: dict[str, str], client: Any, stream: str, tmp_path: Path
) -> None:
    counts = f"{stream}-counts"
    create_stream(client, counts)
    producer, job = example("producer"), example("clickstream")

    put = producer.produce(client, stream, 600, splits=True)
    query = job.start(
        spark, options, tmp_path / "job", clicks=stream, counts=counts, available_now=True
    )
    try:
        assert query.awaitTermination(_SECONDS)
    finally:
        query.stop()

    assert len(open_shards(client, stream)) == 2
    found: dict[tuple[str, str], int] = {}
    for record in read_stream(client, counts):
        row = json.loads(record["Data"])
        found[row["page"], row["minute"]] = row["count"]
    totals: dict[str, int] = defaultdict(int)
    for (page, _), count in found.items():
        totals[page] += count
    assert totals == put


def example(name: str) -> Any:
    path = EXAMPLES / "kinesis_clickstream" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_wrong_option_is_reported_at_load(spark: SparkSession, options: dict[str, str]) -> None:
    wrong = options | {"kinesis.startingPositon": "LATEST"}

    with pytest.raises(AnalysisException, match=r"did you mean kinesis\.startingPosition"):
        spark.readStream.format("kinesis").options(**wrong).load()
