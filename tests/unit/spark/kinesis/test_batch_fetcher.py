"""The driver's part of the source: micro-batches of bounded size, whatever the service does."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.spark.kinesis.batch_fetcher import BatchFetcher, FetchedBatch
from headrace.spark.kinesis.client import Page
from headrace.spark.kinesis.option import KinesisSourceOptions, read_source_options
from headrace.spark.kinesis.position import (
    SHARD_END,
    TRIM_HORIZON,
    StreamOffset,
    after,
    at_timestamp,
)
from headrace.spark.source.data_loss import DataLoss
from testkit.simulation.kinesis_shards import KinesisShards

FIRST = "shardId-000000000000"
OPTIONS = {
    "kinesis.streamName": "clicks",
    "kinesis.startingPosition": "TRIM_HORIZON",
    "kinesis.describeShardInterval": "0s",
}


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def options(**given: Any) -> KinesisSourceOptions:
    named = {f"kinesis.{name}": str(value) for name, value in given.items()}
    return replace(read_source_options(OPTIONS | named, streaming=True), threads=1)


def fetcher(service: KinesisShards, time: Time | None = None, **given: Any) -> BatchFetcher:
    time = time or Time()
    return BatchFetcher(service, options(**given), clock=time.clock, sleep=time.sleep)


def texts(batch: FetchedBatch) -> list[str]:
    return [each["Data"].decode() for found in batch.records.values() for each in found]


def test_a_batch_ends_after_the_last_record() -> None:
    service = KinesisShards(most_per_page=2)
    service.write(FIRST, "a", "b", "c")
    reader = fetcher(service)

    batch = reader.next_batch(reader.initial())

    assert texts(batch) == ["a", "b", "c"]
    assert batch.end.shards == {FIRST: after("103")}


def test_nothing_new_is_an_empty_batch_that_ends_where_it_begins() -> None:
    service = KinesisShards()
    reader = fetcher(service)
    start = reader.initial()

    assert reader.next_batch(start) == FetchedBatch(start)


@pytest.mark.parametrize("idle_ms", [0, 100_000, 10_000_000])
def test_latest_is_after_the_last_record_whatever_the_clock_says(idle_ms: int) -> None:
    service = KinesisShards(most_per_page=2)
    service.write(FIRST, "a", "b", "c")
    service.now_ms += idle_ms
    service.throttled = 1
    reader = fetcher(service, startingPosition="LATEST")
    start = reader.initial()
    service.now_ms -= 60_000  # of another machine
    service.write(FIRST, "new")

    assert start.shards == {FIRST: after("103")}
    assert texts(reader.next_batch(start)) == ["new"]
    assert texts(fetcher(service).next_batch(start)) == ["new"], "after a crash"


def test_latest_of_an_empty_shard_is_its_beginning() -> None:
    service = KinesisShards()
    left, right = service.split(FIRST)
    start = fetcher(service, startingPosition="LATEST").initial()

    assert start.shards == {FIRST: SHARD_END, left: TRIM_HORIZON, right: TRIM_HORIZON}


def test_latest_of_a_long_shard_that_is_idle_is_a_time_since_which_it_has_nothing() -> None:
    service = KinesisShards(most_per_page=1)
    service.write(FIRST, *"abcdefgh")
    service.now_ms = written = 10_000_000
    start = fetcher(service, startingPosition="LATEST").initial()
    service.write(FIRST, "new")

    assert start.shards == {FIRST: at_timestamp(written - 600_000)}
    assert len(service.requests) < 20, "not all of it was read"
    assert texts(fetcher(service).next_batch(start)) == ["new"]


def test_latest_of_a_shard_that_is_written_faster_than_read_is_found() -> None:
    service = KinesisShards(most_per_page=1)
    service.write(FIRST, "a", "b")
    fetch = service.get_records

    def busy(iterator: str, limit: int) -> Page:
        service.now_ms += 100
        service.write(FIRST, "more", "more")
        return fetch(iterator, limit)

    service.get_records = busy  # type: ignore[method-assign]

    fetcher(service, startingPosition="LATEST").initial()

    assert len(service.requests) < 50


def test_records_and_bytes_bound_a_batch() -> None:
    service = KinesisShards(most_per_page=2)
    service.write(FIRST, *["0123456789"] * 9)

    few = fetcher(service, maxFetchRecordsPerShard=5)
    small = fetcher(service, maxFetchBytes=30)

    assert len(texts(few.next_batch(few.initial()))) == 5
    assert len(texts(small.next_batch(small.initial()))) == 4  # the page that spends the rest


def test_time_bounds_a_batch() -> None:
    service = KinesisShards(most_per_page=1)
    service.write(FIRST, *"abcdefghijkl")
    time = Time()
    reader = fetcher(
        service, time, **{"maxFetchTimePerShardSec": 1, "getRecords.fetchIntervalMs": 250}
    )

    batch = reader.next_batch(reader.initial())

    assert len(texts(batch)) == 5  # at once, and then every 250 ms
    assert time.now <= 101


def test_no_shard_starves_when_others_use_up_the_bytes() -> None:
    service = KinesisShards(most_per_page=1)
    left, right = service.split(FIRST)
    service.write(left, *["left"] * 9)
    service.write(right, *["right"] * 9)
    reader = fetcher(service, maxFetchBytes=1)
    position = reader.next_batch(reader.initial()).end

    one = reader.next_batch(position)
    other = reader.next_batch(one.end)

    assert [*one.records, *other.records] == [left, right]


def test_a_throttled_shard_is_left_for_the_next_batch() -> None:
    service = KinesisShards()
    service.write(FIRST, "a")
    service.throttled = 2
    reader = fetcher(service)
    start = reader.initial()

    assert [texts(reader.next_batch(start)) for _ in range(3)] == [[], [], ["a"]]


def test_an_expired_iterator_is_replaced_at_the_position() -> None:
    service = KinesisShards()
    service.write(FIRST, "a")
    reader = fetcher(service)
    end = reader.next_batch(reader.initial()).end
    service.write(FIRST, "b")
    service.forgets_iterators = True

    assert texts(reader.next_batch(end)) == ["b"]


def test_children_are_read_in_the_batch_after_the_end_of_their_parent() -> None:
    service = KinesisShards()
    service.write(FIRST, "k:1")
    left, _ = service.split(FIRST)
    service.write(left, "k:2")
    reader = fetcher(service, describeShardInterval="1h")

    first = reader.next_batch(reader.initial())
    second = reader.next_batch(first.end)

    assert first.end.shards[FIRST] == SHARD_END
    assert (texts(first), texts(second)) == (["k:1"], ["k:2"])


def test_a_shard_that_retention_took_is_reported() -> None:
    service = KinesisShards()
    reader = fetcher(service, failOnDataLoss="true")
    start = reader.initial()
    service.split(FIRST)
    service.expire(FIRST)

    with pytest.raises(DataLoss, match="shardId-000000000000 is gone"):
        reader.next_batch(start)


@pytest.mark.parametrize("left", [["c"], []])
def test_records_that_retention_took_while_the_query_was_down_are_reported(left: list[str]) -> None:
    service = KinesisShards()
    service.write(FIRST, "a")
    reader = fetcher(service)
    end = reader.next_batch(reader.initial()).end
    service.write(FIRST, "b", *left)
    service.trim(FIRST, 2)
    service.empty_pages = 1

    strict = fetcher(service, failOnDataLoss="true")
    with pytest.raises(DataLoss, match=rf"{FIRST} has no record 101 any more"):
        while True:
            strict.next_batch(end)
    lenient = fetcher(service)
    assert texts(lenient.next_batch(end)) == left


def test_a_query_that_was_down_and_lost_nothing_goes_on() -> None:
    service = KinesisShards(most_per_page=1)
    service.write(FIRST, "a", "b")
    reader = fetcher(service)
    end = reader.next_batch(reader.initial()).end
    service.trim(FIRST, 1)
    service.write(FIRST, "c", "d")
    service.empty_pages = 1
    service.throttled = 1

    strict = fetcher(service, failOnDataLoss="true")
    strict.next_batch(end)  # throttled
    assert texts(strict.next_batch(end)) == ["c", "d"]


def test_a_shard_that_is_idle_for_longer_than_its_retention_is_no_loss_to_a_running_query() -> None:
    service = KinesisShards()
    service.write(FIRST, "a")
    reader = fetcher(service, failOnDataLoss="true")
    end = reader.next_batch(reader.initial()).end
    service.trim(FIRST, 1)
    service.forgets_iterators = True

    assert texts(reader.next_batch(end)) == []


def test_a_stream_that_was_created_again_is_read_from_its_first_record() -> None:
    service = KinesisShards()
    service.write(FIRST, "old")
    service.split(FIRST)
    reader = fetcher(service)
    end = reader.next_batch(reader.next_batch(reader.initial()).end).end
    service.create_again()
    service.write(FIRST, "new")

    for following in (reader, fetcher(service)):  # a query that runs, and one that was down
        batch = following.next_batch(end)
        assert texts(batch) == ["new"]
        assert batch.end == StreamOffset(service.creation, {FIRST: after("102")})
        assert texts(following.next_batch(batch.end)) == []


def test_a_stream_that_was_created_again_fails_a_query_that_must_lose_nothing() -> None:
    service = KinesisShards()
    service.split(FIRST)
    reader = fetcher(service, failOnDataLoss="true")
    end = reader.next_batch(reader.initial()).end
    service.create_again()

    with pytest.raises(DataLoss, match=r"clicks: .* created again.*kinesis\.failOnDataLoss"):
        fetcher(service, failOnDataLoss="true").next_batch(end)


def test_an_offset_of_before_streams_were_told_apart_is_taken_as_it_is() -> None:
    service = KinesisShards()
    service.write(FIRST, "a", "b")
    reader = fetcher(service, failOnDataLoss="true")

    batch = reader.next_batch(StreamOffset(None, {FIRST: after("101")}))

    assert texts(batch) == ["b"]
    assert batch.end == StreamOffset(service.creation, {FIRST: after("102")})


def test_an_unchanged_stream_is_described_once_a_minute() -> None:
    service = KinesisShards()
    time = Time()
    reader = fetcher(service, time)
    position = reader.initial()
    for _ in range(100):
        time.sleep(1)
        position = reader.next_batch(position).end

    assert service.requests.count("describe") == 2


def test_available_now_ends_with_what_is_there_and_follows_a_split() -> None:
    service = KinesisShards()
    service.write(FIRST, "a")
    left, right = service.split(FIRST)
    service.write(left, "b")
    service.write(right, "c")
    service.throttled = 1
    reader = fetcher(service)
    reader.stop_at_now()
    position, found = reader.initial(), []
    while (batch := reader.next_batch(position)).end != position:
        position = batch.end
        found += texts(batch)
        service.now_ms += 10_000
        service.write(left, "later")

    assert sorted(set(found) - {"later"}) == ["a", "b", "c"]
    assert found.count("later") <= 1
