"""The source reads Apache Kafka as it reads Headrace."""

from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.spark.source.data_loss import DataLoss
from testkit.peer.apache_kafka import ApacheKafka
from testkit.sample.topic_feed import TopicFeed
from testkit.simulation.spark_source import batch_source, stream_source, values_of


@pytest.fixture
def feed(apache_kafka: ApacheKafka, topic: str) -> Iterator[TopicFeed]:
    with TopicFeed(apache_kafka.address, topic, partitions=2) as found:
        found.write(*[b"%d" % i for i in range(6)])
        found.write(b"x", partition=1)
        yield found


@pytest.fixture
def options(apache_kafka: ApacheKafka, feed: TopicFeed) -> dict[str, str]:
    return {"kafka.bootstrap.servers": apache_kafka.address, "subscribe": feed.topic}


def test_a_batch_is_read(options: dict[str, str]) -> None:
    reader = batch_source({**options, "minPartitions": "4"})

    assert values_of(reader, reader.partitions()) == [*[b"%d" % i for i in range(6)], b"x"]


def test_a_stream_is_read_and_its_progress_committed(
    apache_kafka: ApacheKafka, options: dict[str, str], group: str
) -> None:
    reader = stream_source({**options, "startingOffsets": "earliest", "kafka.group.id": group})
    topic = options["subscribe"]
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())

    found = values_of(reader, reader.partitions(start, end))
    reader.latestOffset(end, ReadAllAvailable())
    reader.stop()

    assert len(found) == 7
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": apache_kafka.address})) as pool:
        assert GroupAdmin(pool).offsets(group) == {
            TopicPartition(topic, 0): 6,
            TopicPartition(topic, 1): 1,
        }


def test_records_that_are_gone_are_a_loss(feed: TopicFeed, options: dict[str, str]) -> None:
    strict = batch_source(options)
    lenient = batch_source({**options, "failOnDataLoss": "false"})
    planned = strict.partitions()
    feed.forget_before(4)

    with pytest.raises(DataLoss, match=f"offset 0 of {feed.topic}-0"):
        values_of(strict, planned)
    assert values_of(lenient, planned) == [b"4", b"5", b"x"]


def test_a_topic_created_again_is_a_loss(
    apache_kafka: ApacheKafka, feed: TopicFeed, options: dict[str, str]
) -> None:
    first = stream_source({**options, "startingOffsets": "earliest", "commitProgress": "false"})
    done = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    first.stop()
    feed.delete()
    with TopicFeed(apache_kafka.address, feed.topic, partitions=2) as again:
        again.write(*[b"new"] * 9)
        again.write(b"new", partition=1)
    reader = stream_source({**options, "commitProgress": "false"})

    with pytest.raises(DataLoss, match=f"topic {feed.topic} was deleted, and created again"):
        reader.latestOffset(done, ReadAllAvailable())
    reader.stop()
