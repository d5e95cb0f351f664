"""Batch reads: ranges, limits, filters and losses, against a real broker."""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
from headrace.spark.source.batch import BatchSource
from headrace.spark.source.data_loss import DataLoss
from headrace.spark.source.offset_range import OffsetRange
from headrace.spark.source.task import RangePartition
from headrace.spark.source.topic_choice import TopicMissing
from testkit.peer.transactional import transact, transactional_producer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.batch import SAMPLE_TIME_MS
from testkit.sample.topic_feed import TopicFeed
from testkit.simulation.spark_source import batch_source, rows_of, values_of


@pytest.fixture
def feed(broker: BrokerProcess, topic: str) -> Iterator[TopicFeed]:
    with TopicFeed(broker.address, topic, partitions=2) as found:
        yield found


@pytest.fixture
def source(broker: BrokerProcess, topic: str) -> Any:
    def make(**options: str) -> BatchSource:
        given = {"kafka.bootstrap.servers": broker.address, **options}
        if not {"assign", "subscribePattern"} & given.keys():
            given.setdefault("subscribe", topic)
        return batch_source(given)

    return make


def read(reader: BatchSource) -> list[bytes]:
    return values_of(reader, reader.partitions())


def ranges(reader: BatchSource) -> list[tuple[int, int, int]]:
    return [
        (each.range.partition.partition, each.range.start, each.range.end)
        for each in reader.partitions()
        if isinstance(each, RangePartition)
    ]


def test_every_column_is_there(feed: TopicFeed, source: Any) -> None:
    feed.write(b"v0", b"v1", keys=[b"k0", None], partition=1, step_ms=5)
    reader = source()

    first, second = rows_of(reader, reader.partitions())

    assert first == {
        "key": b"k0",
        "value": b"v0",
        "topic": feed.topic,
        "partition": 1,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(SAMPLE_TIME_MS / 1000, UTC),
        "timestampType": 0,
    }
    assert (second["key"], second["offset"]) == (None, 1)
    assert second["timestamp"].microsecond == 5_000


def test_a_reader_pickles_for_its_tasks(feed: TopicFeed, source: Any) -> None:
    feed.write(b"a", b"b")
    reader = source()
    planned = reader.partitions()

    sent = pickle.loads(pickle.dumps((reader, planned)))

    assert values_of(*sent) == [b"a", b"b"]


def test_what_comes_after_planning_is_not_read(feed: TopicFeed, source: Any) -> None:
    feed.write(b"a")
    reader = source()
    planned = reader.partitions()
    feed.write(b"b")

    assert values_of(reader, planned) == [b"a"]


def test_an_empty_topic_has_no_rows(feed: TopicFeed, source: Any) -> None:
    assert read(source()) == []


def test_offsets_bound_the_read(feed: TopicFeed, source: Any) -> None:
    feed.write(*[b"%d" % i for i in range(10)])
    feed.write(b"x", b"y", partition=1)
    name = feed.topic

    reader = source(
        startingOffsets=f'{{"{name}":{{"0":3,"1":-2}}}}',
        endingOffsets=f'{{"{name}":{{"0":6,"1":-1}}}}',
    )

    assert read(reader) == [b"3", b"4", b"5", b"x", b"y"]


def test_times_bound_the_read(feed: TopicFeed, source: Any) -> None:
    feed.write(*[b"%d" % i for i in range(10)], step_ms=1000)

    reader = source(
        startingTimestamp=str(SAMPLE_TIME_MS + 2500),
        endingTimestamp=str(SAMPLE_TIME_MS + 6000),
        startingOffsetsByTimestampStrategy="latest",
    )

    assert read(reader) == [b"3", b"4", b"5"]


def test_a_time_without_records_is_an_error_or_the_end(feed: TopicFeed, source: Any) -> None:
    feed.write(b"old")
    future = {"startingTimestamp": str(SAMPLE_TIME_MS + 1)}

    with pytest.raises(ConfigError, match="startingOffsetsByTimestampStrategy to latest"):
        source(**future).partitions()
    assert read(source(**future, startingOffsetsByTimestampStrategy="latest")) == []


def test_offsets_must_name_every_partition(feed: TopicFeed, source: Any) -> None:
    reader = source(startingOffsets=f'{{"{feed.topic}":{{"0":0}}}}')

    with pytest.raises(ConfigError, match=f"does not name {feed.topic}-1"):
        reader.partitions()


def test_a_start_past_the_end_is_an_error(feed: TopicFeed, source: Any) -> None:
    feed.write(b"a")
    reader = source(startingOffsets=f'{{"{feed.topic}":{{"0":5,"1":0}}}}')

    with pytest.raises(ConfigError, match=f"5 for {feed.topic}-0, which ends at 1"):
        reader.partitions()


def test_assigned_partitions_alone_are_read(feed: TopicFeed, source: Any) -> None:
    feed.write(b"a")
    feed.write(b"b", partition=1)

    assert read(source(assign=f'{{"{feed.topic}":[1]}}')) == [b"b"]


def test_a_pattern_matches_whole_names(broker: BrokerProcess, feed: TopicFeed, source: Any) -> None:
    feed.write(b"a")
    with TopicFeed(broker.address, f"{feed.topic}-more") as other:
        other.write(b"b")

    assert read(source(subscribePattern=feed.topic)) == [b"a"]
    assert read(source(subscribePattern=f"{feed.topic}.*")) == [b"a", b"b"]


def test_a_missing_topic_is_reported_with_one_like_it(feed: TopicFeed, source: Any) -> None:
    with pytest.raises(TopicMissing, match=f"no topic {feed.topic}x; did you mean {feed.topic}"):
        source(subscribe=f"{feed.topic}x").partitions()


def test_big_partitions_are_split_by_offset(feed: TopicFeed, source: Any) -> None:
    feed.write(*[b"%d" % i for i in range(90)])
    feed.write(b"x", partition=1)

    assert ranges(source(minPartitions="4")) == [(0, 0, 30), (0, 30, 60), (0, 60, 90), (1, 0, 1)]
    split = source(maxRecordsPerPartition="40")
    assert [end - start for _, start, end in ranges(split)] == [30, 30, 30, 1]
    assert read(split) == [*[b"%d" % i for i in range(90)], b"x"]


def test_filters_choose_what_is_read(feed: TopicFeed, source: Any) -> None:
    feed.write(*[b"%d" % i for i in range(10)], partition=1, step_ms=1000)
    feed.write(b"x")
    reader = source()

    at = datetime.fromtimestamp(SAMPLE_TIME_MS / 1000 + 3, UTC)
    value = EqualTo(("value",), b"5")
    left = reader.pushFilters(
        [
            EqualTo(("partition",), 1),
            GreaterThanOrEqual(("timestamp",), at),
            LessThan(("offset",), 6),
            value,
        ]
    )

    assert left == [value]
    assert ranges(reader) == [(1, 3, 6)]
    assert read(reader) == [b"3", b"4", b"5"]


def test_a_late_record_is_not_lost_to_a_filter_on_time(feed: TopicFeed, source: Any) -> None:
    feed.write(b"new", timestamp_ms=SAMPLE_TIME_MS + 1000)
    feed.write(b"late", timestamp_ms=SAMPLE_TIME_MS)
    feed.write(b"newer", timestamp_ms=SAMPLE_TIME_MS + 2000)
    at = datetime.fromtimestamp(SAMPLE_TIME_MS / 1000 + 1, UTC)

    after, before = source(), source()
    after.pushFilters([GreaterThanOrEqual(("timestamp",), at)])
    before.pushFilters([LessThan(("timestamp",), at)])

    assert read(after) == [b"new", b"newer"]
    assert read(before) == [b"late"]


def test_spark_takes_the_reader_for_one_without_pushdown(source: Any) -> None:
    # Otherwise Spark refuses to read while spark.sql.python.filterPushdown.enabled is off.
    from pyspark.sql.datasource import DataSourceReader

    assert source().pushFilters.__func__ is DataSourceReader.pushFilters


def test_records_gone_before_they_were_read_fail_the_task(feed: TopicFeed, source: Any) -> None:
    feed.write(*[b"%d" % i for i in range(10)])
    reader = source()
    planned = reader.partitions()
    feed.forget_before(4)

    with pytest.raises(DataLoss, match=f"offset 0 of {feed.topic}-0 .*failOnDataLoss to false"):
        values_of(reader, planned)


def test_without_fail_on_data_loss_the_rest_is_read(feed: TopicFeed, source: Any) -> None:
    feed.write(*[b"%d" % i for i in range(10)])
    reader = source(failOnDataLoss="false", maxRecordsPerPartition="3")
    planned = reader.partitions()
    feed.forget_before(4)

    assert values_of(reader, planned) == [b"%d" % i for i in range(4, 10)]


def test_a_log_that_ends_before_the_range_is_a_loss(feed: TopicFeed, source: Any) -> None:
    feed.write(b"a", b"b")
    promised = [RangePartition(OffsetRange(TopicPartition(feed.topic, 0), 1, 9))]
    patience = {"kafkaConsumer.pollTimeoutMs": "1500"}

    with pytest.raises(DataLoss, match=f"offset 2 of {feed.topic}-0 is not there"):
        values_of(source(**patience), promised)
    assert values_of(source(**patience, failOnDataLoss="false"), promised) == [b"b"]


def test_nothing_before_the_range_is_read_in_its_place(feed: TopicFeed, source: Any) -> None:
    feed.write(b"a", b"b")
    cut_off = [RangePartition(OffsetRange(TopicPartition(feed.topic, 0), 5, 9))]

    with pytest.raises(DataLoss, match=f"offset 5 of {feed.topic}-0"):
        values_of(source(), cut_off)
    assert values_of(source(failOnDataLoss="false"), cut_off) == []


def test_only_committed_transactions_are_read_unless_asked_for(
    broker: BrokerProcess, feed: TopicFeed, source: Any
) -> None:
    producer = transactional_producer(broker.address, feed.topic)
    transact(producer, feed.topic, b"yes")
    transact(producer, feed.topic, b"no", commit=False)
    transact(producer, feed.topic, b"and yes")

    every = source(**{"kafka.isolation.level": "read_uncommitted"})
    assert read(source()) == [b"yes", b"and yes"]
    assert read(every) == [b"yes", b"no", b"and yes"]
