"""Streaming reads: tests call the source as Spark does, against a real broker."""

import json
import logging
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError
from headrace.spark.source.data_loss import DataLoss
from headrace.spark.source.stream import StreamSource
from headrace.testing.readiness import wait_until
from testkit.peer.transactional import transactional_producer, write
from testkit.process.broker_process import BrokerProcess
from testkit.sample.topic_feed import TopicFeed
from testkit.simulation.spark_source import offsets_of, stream_source, values_of

ALL = ReadAllAvailable()
MakeSource = Callable[..., StreamSource]


@pytest.fixture
def feed(broker: BrokerProcess, topic: str) -> Iterator[TopicFeed]:
    with TopicFeed(broker.address, topic, partitions=2) as found:
        yield found


@pytest.fixture
def source(broker: BrokerProcess, topic: str) -> Iterator[MakeSource]:
    made = []

    def make(**options: str) -> StreamSource:
        given = {
            "kafka.bootstrap.servers": broker.address,
            "startingOffsets": "earliest",
            "commitProgress": "false",
            **options,
        }
        if "subscribePattern" not in given:
            given.setdefault("subscribe", topic)
        made.append(stream_source(given))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def committed(broker: BrokerProcess) -> Iterator[Callable[[str], dict[str, int]]]:
    """What a group has committed, as every Kafka tool would show it."""
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        groups = GroupAdmin(pool)
        yield lambda group: {str(each): at for each, at in groups.offsets(group).items()}


def batch(reader: StreamSource, start: Any, end: Any) -> list[bytes]:
    return values_of(reader, reader.partitions(start, end))


def test_offsets_have_the_connectors_shape(feed: TopicFeed, source: MakeSource) -> None:
    feed.write(b"a", b"b", partition=1)
    reader = source()

    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)

    assert json.dumps(offsets_of(start)) == f'{{"{feed.topic}": {{"0": 0, "1": 0}}}}'
    assert json.dumps(offsets_of(end)) == f'{{"{feed.topic}": {{"0": 0, "1": 2}}}}'
    assert batch(reader, start, end) == [b"a", b"b"]


def test_a_stream_begins_at_the_end_by_default(feed: TopicFeed, source: MakeSource) -> None:
    feed.write(b"a")

    start = source(startingOffsets="latest").initialOffset()

    assert offsets_of(start) == {feed.topic: {"0": 1, "1": 0}}


def test_a_beginning_at_the_end_is_pinned_by_an_empty_micro_batch(
    feed: TopicFeed, source: MakeSource
) -> None:
    feed.write(b"a")
    reader = source(startingOffsets="latest")
    start = reader.initialOffset()
    feed.write(b"b")

    pinned = reader.latestOffset(start, ALL)
    after = reader.latestOffset(pinned, ALL)

    assert pinned == start
    assert batch(reader, pinned, after) == [b"b"]


def test_a_crash_in_the_first_micro_batch_loses_nothing(
    feed: TopicFeed, source: MakeSource
) -> None:
    first = source(startingOffsets="latest")
    pinned = first.latestOffset(first.initialOffset(), ALL)
    feed.write(b"a")
    again = source(startingOffsets="latest")

    replayed = batch(again, again.initialOffset(), pinned)
    after = again.latestOffset(pinned, ALL)

    assert replayed == []
    assert batch(again, pinned, after) == [b"a"]


def test_without_news_the_offset_is_the_same(feed: TopicFeed, source: MakeSource) -> None:
    reader = source()
    start = reader.initialOffset()

    assert reader.latestOffset(start, ALL) is start
    assert list(reader.partitions(start, start)) == []


def test_a_micro_batch_takes_no_more_than_the_most(feed: TopicFeed, source: MakeSource) -> None:
    feed.write(*[b""] * 30)
    feed.write(*[b""] * 10, partition=1)
    reader = source(maxOffsetsPerTrigger="20")
    limit = reader.getDefaultReadLimit()

    end = reader.latestOffset(reader.initialOffset(), limit)

    assert limit == ReadMaxRows(20)
    assert offsets_of(end) == {feed.topic: {"0": 15, "1": 5}}
    assert reader.reportLatestOffset() == {feed.topic: {"0": 30, "1": 10}}


def test_sparks_limit_wins_over_the_option(feed: TopicFeed, source: MakeSource) -> None:
    feed.write(*[b""] * 30)
    reader = source(maxOffsetsPerTrigger="20")

    end = reader.latestOffset(reader.initialOffset(), ALL)

    assert offsets_of(end) == {feed.topic: {"0": 30, "1": 0}}


def test_too_little_waits_for_more(feed: TopicFeed, source: MakeSource) -> None:
    reader = source(minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    limit = reader.getDefaultReadLimit()
    feed.write(b"")
    first = reader.latestOffset(reader.initialOffset(), limit)
    feed.write(*[b""] * 4)
    held_back = reader.latestOffset(first, limit)
    feed.write(b"")
    enough = reader.latestOffset(first, limit)

    assert limit == ReadMinRows(5)
    assert (first[feed.topic]["0"], held_back) == (1, first)
    assert enough[feed.topic]["0"] == 6


def test_the_least_holds_together_with_the_most(feed: TopicFeed, source: MakeSource) -> None:
    reader = source(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="8")
    limit = reader.getDefaultReadLimit()
    feed.write(b"")
    first = reader.latestOffset(reader.initialOffset(), limit)
    feed.write(*[b""] * 4)

    assert reader.latestOffset(first, limit) == first
    feed.write(*[b""] * 16)
    assert reader.latestOffset(first, limit)[feed.topic]["0"] == 9


def test_available_now_ends_at_what_was_there(feed: TopicFeed, source: MakeSource) -> None:
    feed.write(*[b""] * 3)
    reader = source(minOffsetsPerTrigger="100")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    target = reader.latestOffset(start, ReadMaxRows(2))
    feed.write(*[b""] * 3)

    last = reader.latestOffset(target, ReadMaxRows(2))

    assert target[feed.topic]["0"] == 2
    assert last[feed.topic]["0"] == 3
    assert reader.latestOffset(last, ReadMaxRows(2)) == last


def test_new_partitions_are_read_from_their_start(feed: TopicFeed, source: MakeSource) -> None:
    reader = source()
    start = reader.latestOffset(reader.initialOffset(), ALL)
    feed.grow(3)
    feed.write(b"new", partition=2)

    end = _until_seen(reader, start, feed.topic, "2")

    assert batch(reader, start, end) == [b"new"]


def test_new_topics_of_a_pattern_are_read(
    broker: BrokerProcess, feed: TopicFeed, source: MakeSource
) -> None:
    reader = source(subscribePattern=f"{feed.topic}.*", maxOffsetsPerTrigger="10")
    start = reader.initialOffset()
    with TopicFeed(broker.address, f"{feed.topic}-new") as other:
        other.write(b"new")

    end = _until_seen(reader, start, f"{feed.topic}-new", "0")

    assert batch(reader, start, end) == [b"new"]


def _until_seen(reader: StreamSource, start: Any, topic: str, partition: str) -> Any:
    found: list[Any] = []

    def seen() -> bool:
        found.append(reader.latestOffset(start, reader.getDefaultReadLimit()))
        return partition in found[-1].get(topic, {})

    wait_until(seen, what=f"partition {partition} of {topic} in the stream")
    return found[-1]


def test_a_deleted_topic_is_a_loss(
    broker: BrokerProcess, feed: TopicFeed, source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    with TopicFeed(broker.address, f"{feed.topic}-kept") as kept:
        kept.write(b"a")
    both = f"{feed.topic},{feed.topic}-kept"
    strict, lenient = source(subscribe=both), source(subscribe=both, failOnDataLoss="false")
    start = strict.initialOffset()
    feed.delete()

    # Not in `partitions`: Spark has stored the end by then, and would return to it for ever.
    with pytest.raises(DataLoss, match=f"{feed.topic}-0 is gone"):
        strict.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ALL)
    with caplog.at_level(logging.WARNING, "headrace.spark"):
        assert batch(lenient, start, end) == [b"a"]
    assert f"{feed.topic}-0 is gone" in caplog.text


def test_a_topic_created_again_is_a_loss(
    broker: BrokerProcess, feed: TopicFeed, source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    feed.write(b"a", b"b")
    reader = source()
    before = reader.latestOffset(reader.initialOffset(), ALL)
    feed.delete()
    with TopicFeed(broker.address, feed.topic, partitions=2) as again:
        again.write(b"c", b"d", b"e")

    again_created = f"topic {feed.topic} was deleted, and created again"
    with pytest.raises(DataLoss, match=again_created):
        source().latestOffset(before, ALL)
    # A running query looks at its topics once a second.
    with pytest.raises(DataLoss, match=again_created):
        wait_until(lambda: reader.latestOffset(before, ALL) == before, what="the loss")
    lenient = source(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "headrace.spark"):
        without = lenient.latestOffset(before, ALL)
        assert batch(lenient, before, without) == []
    assert f"{feed.topic}-0 is gone" in caplog.text
    assert batch(lenient, without, lenient.latestOffset(without, ALL)) == [b"c", b"d", b"e"]


def test_deleted_records_fill_no_micro_batches(
    feed: TopicFeed, source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10):
        feed.write(*[b"%d" % (number * 10 + each) for each in range(10)])
    reader = source(failOnDataLoss="false", maxOffsetsPerTrigger="3", maxRecordsPerPartition="2")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    feed.forget_before(95)

    first = reader.latestOffset(start, limit)
    with caplog.at_level(logging.WARNING, "headrace.spark"):
        assert batch(reader, start, first) == [b"95", b"96", b"97"]
        assert batch(reader, first, reader.latestOffset(first, limit)) == [b"98", b"99"]

    assert caplog.text.count("records_missed") == 1
    assert f"{feed.topic}-0 was read up to 0 and now begins at 95" in caplog.text


def test_deleted_records_fail_the_query_that_is_not_to_miss_any(
    feed: TopicFeed, source: MakeSource
) -> None:
    feed.write(*[b""] * 10)
    reader = source(maxOffsetsPerTrigger="3")
    start = reader.initialOffset()
    feed.write(b"")
    feed.forget_before(10)

    end = reader.latestOffset(start, reader.getDefaultReadLimit())

    with pytest.raises(DataLoss, match=f"offset 0 of {feed.topic}-0"):
        batch(reader, start, end)


def test_a_planned_micro_batch_is_planned_the_same_again(
    feed: TopicFeed, source: MakeSource
) -> None:
    feed.write(*[b"%d" % i for i in range(10)])
    reader = source(minPartitions="3")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    feed.write(b"later")

    again = source(minPartitions="3")

    assert len(again.partitions(start, end)) == 3
    assert batch(again, start, end) == batch(reader, start, end) == [b"%d" % i for i in range(10)]


def test_an_open_transaction_is_not_read(
    broker: BrokerProcess, feed: TopicFeed, source: MakeSource
) -> None:
    producer = transactional_producer(broker.address, feed.topic)
    producer.begin_transaction()
    write(producer, feed.topic, b"open")
    committed = source()
    start = committed.initialOffset()

    assert committed.latestOffset(start, ALL) == start
    uncommitted = source(**{"kafka.isolation.level": "read_uncommitted"})
    assert uncommitted.latestOffset(start, ALL) != start
    producer.abort_transaction()


def test_a_reader_of_uncommitted_records_is_followed_without_loss(
    broker: BrokerProcess, feed: TopicFeed, source: MakeSource
) -> None:
    producer = transactional_producer(broker.address, feed.topic)
    producer.begin_transaction()
    write(producer, feed.topic, b"open")
    before = source(**{"kafka.isolation.level": "read_uncommitted"})
    done = before.latestOffset(before.initialOffset(), ALL)
    reader = source()

    while_open = reader.latestOffset(done, ALL)
    producer.commit_transaction()
    feed.write(b"after", partition=0)
    feed.write(b"after", partition=1)
    end = reader.latestOffset(while_open, ALL)

    assert while_open == done
    assert batch(reader, while_open, end) == [b"after"] * 2


def test_the_reader_of_tasks_pickles(feed: TopicFeed, source: MakeSource) -> None:
    feed.write(b"a")
    reader = source()
    start = reader.initialOffset()
    planned = reader.partitions(start, reader.latestOffset(start, ALL))

    assert values_of(*pickle.loads(pickle.dumps((reader, planned)))) == [b"a"]


def test_an_end_is_refused(source: MakeSource) -> None:
    with pytest.raises(ConfigError, match="a stream does not end"):
        source(endingOffsets="latest")


def test_progress_is_a_groups_offsets(
    feed: TopicFeed, source: MakeSource, committed: Callable[[str], dict[str, int]]
) -> None:
    feed.write(b"a", b"b")
    reader = source(commitProgress="true", groupIdPrefix="lag")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    before = committed(f"lag-{feed.topic}")

    reader.latestOffset(end, ALL)  # Spark asks again when the micro-batch is done.

    assert before == {f"{feed.topic}-0": 0, f"{feed.topic}-1": 0}
    assert committed(f"lag-{feed.topic}") == {f"{feed.topic}-0": 2, f"{feed.topic}-1": 0}


def test_a_group_that_refuses_progress_does_not_stop_the_stream(
    broker: BrokerProcess,
    feed: TopicFeed,
    source: MakeSource,
    group: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from confluent_kafka import Consumer

    member = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    member.subscribe([feed.topic])
    wait_until(lambda: member.poll(0.1) is None and bool(member.assignment()), what="a member")
    feed.write(b"a")
    reader = source(commitProgress="true", **{"kafka.group.id": group})

    with caplog.at_level(logging.WARNING, "headrace.spark"):
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)

    assert batch(reader, start, end) == [b"a"]
    assert f"progress_commit_failed group={group}" in caplog.text
    member.close()


def test_a_broker_that_restarts_is_waited_for(own_broker: BrokerProcess, topic: str) -> None:
    own_broker.start()
    options = {"kafka.bootstrap.servers": own_broker.address, "subscribe": topic}
    with TopicFeed(own_broker.address, topic) as feed:
        feed.write(b"a")
    reader = stream_source({**options, "startingOffsets": "earliest"})
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    own_broker.kill()
    own_broker.start()

    assert reader.latestOffset(first, ALL) == first
    assert batch(reader, start, first) == [b"a"]
    reader.stop()
