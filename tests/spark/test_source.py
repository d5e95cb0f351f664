"""`format("headrace")` in a real Spark session: Spark gets the rows of the source."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession

from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.sample.batch import SAMPLE_TIME_MS
from testkit.sample.topic_feed import TopicFeed
from testkit.simulation.spark_source import offsets_of

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
Load = Callable[..., DataFrame]


@pytest.fixture
def feed(broker: BrokerProcess, topic: str) -> Iterator[TopicFeed]:
    with TopicFeed(broker.address, topic, partitions=2) as found:
        yield found


@pytest.fixture
def load(spark: SparkSession, broker: BrokerProcess, topic: str) -> Load:
    def load_batch(**options: str) -> DataFrame:
        given = {"kafka.bootstrap.servers": broker.address, "subscribe": topic, **options}
        return spark.read.format("headrace").options(**given).load()

    return load_batch


@pytest.fixture
def load_stream(spark: SparkSession, broker: BrokerProcess, topic: str) -> Load:
    def load(**options: str) -> DataFrame:
        given = {
            "kafka.bootstrap.servers": broker.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
        }
        return spark.readStream.format("headrace").options(**given).load()

    return load


def test_an_empty_topic_has_the_connectors_columns(feed: TopicFeed, load: Load) -> None:
    rows = load(includeHeaders="true")

    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert rows.collect() == []


def test_records_are_rows(feed: TopicFeed, load: Load) -> None:
    feed.write(b"a", b"b", keys=[b"k", None], partition=1)

    rows = (
        load()
        .orderBy("offset")
        .selectExpr(
            "cast(key AS string)",
            "cast(value AS string)",
            "topic",
            "partition",
            "offset",
            "unix_millis(timestamp) AS ms",
            "timestampType",
        )
    )

    assert rows.collect() == [
        Row("k", "a", feed.topic, 1, 0, SAMPLE_TIME_MS, 0),
        Row(None, "b", feed.topic, 1, 1, SAMPLE_TIME_MS, 0),
    ]


def test_many_batches_arrive_whole(feed: TopicFeed, load: Load) -> None:
    for partition in (0, 1):
        for _ in range(3):
            feed.write(*[b"x" * 10] * 5_000, partition=partition)

    summed = load(minPartitions="3").selectExpr(
        "count(*) AS n", "sum(length(value)) AS bytes", "count(DISTINCT partition, offset) AS own"
    )

    assert summed.collect() == [Row(n=30_000, bytes=300_000, own=30_000)]


def test_a_schema_may_ask_for_fewer_columns(
    spark: SparkSession, broker: BrokerProcess, feed: TopicFeed
) -> None:
    feed.write(b"a")
    reader = spark.read.format("headrace").schema("offset BIGINT, value BINARY")

    rows = reader.options(
        **{"kafka.bootstrap.servers": broker.address, "subscribe": feed.topic}
    ).load()

    assert rows.collect() == [Row(offset=0, value=bytearray(b"a"))]


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_filters_hold_with_and_without_pushdown(
    spark: SparkSession, feed: TopicFeed, load: Load, enabled: str
) -> None:
    feed.write(*[b"%d" % i for i in range(10)], partition=1, step_ms=1000)
    feed.write(b"x")
    spark.conf.set(PUSHDOWN, enabled)
    try:
        found = load().where(
            "partition = 1 AND offset BETWEEN 2 AND 7"
            f" AND timestamp >= timestamp_millis({SAMPLE_TIME_MS + 4000}) AND value <> '6'"
        )
        values = [row.value for row in found.select("value").collect()]
    finally:
        spark.conf.unset(PUSHDOWN)

    assert values == [b"4", b"5", b"7"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is not supported"),
        ({"minPartitions": "none"}, "option minPartitions cannot be 'none'"),
    ],
)
def test_a_wrong_option_is_reported_when_loading(
    load: Load, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        load(**options)
    assert problem in str(raised.value)


def test_values_are_decoded_on_request(feed: TopicFeed, load: Load) -> None:
    feed.write(b'{"page":"/a","ms":5}', b"broken", b'{"page":"/b"}')

    rows = load(valueFormat="json", valueSchema="page STRING, ms INT").orderBy("offset")

    assert rows.schema["value"].dataType.simpleString() == "struct<page:string,ms:int>"
    assert [row.value for row in rows.collect()] == [
        Row(page="/a", ms=5),
        None,
        Row(page="/b", ms=None),
    ]


def test_avro_values_are_columns_of_spark(feed: TopicFeed, load: Load) -> None:
    fields = [
        {"name": "page", "type": "string"},
        {"name": "ms", "type": ["null", "int"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    schema = json.dumps({"type": "record", "name": "Click", "fields": fields})
    full = b"\x04/a\x02\x0a\x04\x02x\x02y\x00\x02\x02n\x06\x00\xd0\x0f"
    feed.write(full, b"broken", b"\x04/b\x00\x00\x00\x00")

    rows = load(valueFormat="avro", valueSchema=schema).orderBy("offset")
    found = rows.selectExpr("value.*", "unix_millis(value.at) AS millis").drop("at").collect()

    assert rows.schema["value"].dataType.simpleString() == (
        "struct<page:string,ms:int,tags:array<string>,counts:map<string,bigint>,at:timestamp>"
    )
    assert [tuple(row) for row in found] == [
        ("/a", 5, ["x", "y"], {"n": 3}, 1000),
        (None, None, None, None, None),
        ("/b", None, [], {}, 0),
    ]


def test_fail_fast_fails_the_query(feed: TopicFeed, load: Load) -> None:
    feed.write(b"broken")

    rows = load(valueFormat="json", valueSchema="page STRING", valueMode="FAILFAST")

    with pytest.raises(Exception, match="valueMode to PERMISSIVE"):
        rows.collect()


def run(stream: DataFrame, checkpoint: Path, seen: list[tuple[int, str]]) -> list[dict[str, Any]]:
    """Run until everything that was there is read; what each micro-batch had is added to `seen`."""

    def take(batch: DataFrame, number: int) -> None:
        values = batch.selectExpr("cast(value AS string) AS value").orderBy("value").collect()
        seen.extend((number, row.value) for row in values)

    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(each.json) for each in query.recentProgress]


def test_a_stream_goes_on_where_it_was(feed: TopicFeed, load_stream: Load, tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    feed.write(b"a", b"b", b"c")
    progress = run(load_stream(maxOffsetsPerTrigger="2"), tmp_path, seen)
    feed.write(b"d", partition=1)
    run(load_stream(maxOffsetsPerTrigger="2"), tmp_path, seen)

    assert seen == [(0, "a"), (0, "b"), (1, "c"), (2, "d")]
    end = progress[0]["sources"][0]["endOffset"]
    assert offsets_of(end) == {feed.topic: {"0": 2, "1": 0}}
    assert progress[0]["sources"][0]["latestOffset"] == {feed.topic: {"0": 3, "1": 0}}


def test_a_stream_that_began_at_the_end_reads_what_came_after(
    feed: TopicFeed, load_stream: Load, tmp_path: Path
) -> None:
    seen: list[tuple[int, str]] = []
    feed.write(b"old")
    run(load_stream(startingOffsets="latest"), tmp_path, seen)
    feed.write(b"new")

    run(load_stream(startingOffsets="latest"), tmp_path, seen)

    assert seen == [(1, "new")]


def test_a_checkpoint_of_the_connector_is_gone_on_from(
    feed: TopicFeed, load_stream: Load, tmp_path: Path
) -> None:
    feed.write(b"a", b"b")
    seen: list[tuple[int, str]] = []
    run(load_stream(), tmp_path, seen)
    # What the connector writes differs from ours in blanks, and has no ids.
    offsets = tmp_path / "offsets" / "0"
    *head, ours = offsets.read_text().splitlines()
    bare = offsets_of(json.loads(ours))
    assert bare == {feed.topic: {"0": 2, "1": 0}}
    offsets.write_text("\n".join([*head, json.dumps(bare, separators=(",", ":"))]))
    (tmp_path / "offsets" / ".0.crc").unlink(missing_ok=True)
    feed.write(b"c")

    run(load_stream(), tmp_path, seen)

    assert [value for _, value in seen] == ["a", "b", "c"]


def test_a_topic_created_again_fails_the_query_that_goes_on(
    broker: BrokerProcess, feed: TopicFeed, load_stream: Load, tmp_path: Path
) -> None:
    seen: list[tuple[int, str]] = []
    feed.write(b"a", b"b")
    run(load_stream(), tmp_path, seen)
    feed.delete()
    with TopicFeed(broker.address, feed.topic, partitions=2) as again:
        again.write(b"c", b"d", b"e")

    # The second time says that Spark has stored nothing of the first.
    for _ in range(2):
        with pytest.raises(Exception, match="was deleted, and created again"):
            run(load_stream(), tmp_path, seen)
    run(load_stream(failOnDataLoss="false"), tmp_path, seen)

    assert [value for _, value in seen] == ["a", "b", "c", "d", "e"]


def test_a_running_stream_survives_a_broker_that_restarts(
    spark: SparkSession, own_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    own_broker.start()
    options = {"kafka.bootstrap.servers": own_broker.address, "startingOffsets": "earliest"}
    seen: list[str] = []

    def take(batch: DataFrame, number: int) -> None:
        seen.extend(row.value.decode() for row in batch.select("value").collect())

    with TopicFeed(own_broker.address, topic) as feed:
        feed.write(b"before")
    stream = spark.readStream.format("headrace").options(**options, subscribe=topic).load()
    query = (
        stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path)).start()
    )
    try:
        wait_until(
            lambda: seen == ["before"] or not query.isActive,
            what="the first record",
            timeout_seconds=300,
        )
        own_broker.kill()
        own_broker.start()
        with TopicFeed(own_broker.address, topic) as feed:
            feed.write(b"after")
        wait_until(
            lambda: len(seen) > 1 or not query.isActive,
            what="the record after the restart",
            timeout_seconds=300,
        )
    finally:
        query.stop()

    assert seen == ["before", "after"]
