"""The format kinesis on a real session and a real gateway; see also `test_kinesis_source.py`."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import HTTPClientError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

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
)

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


def test_a_wrong_option_is_reported_at_load(spark: SparkSession, options: dict[str, str]) -> None:
    wrong = options | {"kinesis.startingPositon": "LATEST"}

    with pytest.raises(AnalysisException, match=r"did you mean kinesis\.startingPosition"):
        spark.readStream.format("kinesis").options(**wrong).load()
