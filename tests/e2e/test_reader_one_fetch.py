"""A reader of short ranges: the first fetch is the caller's, and a thread starts only for more."""

import threading

import pyarrow as pa
import pytest

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import ClientError, PositionOutOfRange, Unreachable
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.prefetch import Prefetch
from headrace.client.read.read_range import ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess


def settings(address: str, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": address} | {
        name.replace("_", "."): value for name, value in more.items()
    }


@pytest.fixture
def partition(broker: BrokerProcess, topic: str) -> TopicPartition:
    """The one partition of a topic with 100 records in batches of a few."""
    with ConnectionPool(ClientSettings.of(settings(broker.address))) as pool:
        assert Admin(pool).create_topics([NewTopic(topic, 1, 1)]) == {topic: None}
    with Writer(settings(broker.address), topic, batch_bytes=1000) as writer:
        writer.write(pa.table({"value": [b"%0100d" % number for number in range(100)]}))
    return TopicPartition(topic, 0)


def offsets(reader: Reader) -> list[int]:
    return [offset for chunk in reader for offset in chunk.columns["offset"].to_pylist()]


def prefetching() -> bool:
    return "headrace-prefetch" in {each.name for each in threading.enumerate()}


def test_a_range_that_one_fetch_has_needs_no_thread(
    broker: BrokerProcess, partition: TopicPartition
) -> None:
    wait_until(lambda: not prefetching(), what="the end of other tests' fetching")
    ranges = {partition: ReadRange(20, 60)}

    with Reader(settings(broker.address), ranges, expect_one_fetch=True) as reader:
        first = reader.poll(60)
        assert first is not None
        assert not prefetching()
        found = first.columns["offset"].to_pylist() + offsets(reader)
        assert reader.ended

    assert found == list(range(20, 60))


def test_a_range_that_one_fetch_has_not_is_read_to_its_end(
    broker: BrokerProcess, partition: TopicPartition
) -> None:
    small = settings(broker.address, max_partition_fetch_bytes="1500")
    ranges = {partition: ReadRange(0, 100)}

    with Reader(small, ranges, expect_one_fetch=True) as reader:
        assert offsets(reader) == list(range(100))


def test_what_comes_before_an_error_is_returned_before_it(
    broker: BrokerProcess, partition: TopicPartition
) -> None:
    hasty = settings(broker.address, default_api_timeout_ms="300", fetch_max_wait_ms="50")

    with (
        Reader(hasty, {partition: ReadRange(90, 120)}, expect_one_fetch=True) as reader,
        pytest.raises(PositionOutOfRange) as raised,
    ):
        offsets(reader)

    assert reader.positions == {partition: 100}
    assert (raised.value.offset, raised.value.log_end) == (100, 100)


def test_a_first_fetch_that_waits_ends_when_another_thread_closes_the_reader(
    broker: BrokerProcess, partition: TopicPartition
) -> None:
    patient = settings(broker.address, fetch_max_wait_ms="30000")
    ranges = {partition: ReadRange(100)}
    reader = Reader(patient, ranges, follow=True, expect_one_fetch=True)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(reader.poll()))
    thread.start()
    wait_until(lambda: reader.bytes_in_flight > 0, what="a fetch that waits")

    reader.close()
    thread.join(60)

    assert not thread.is_alive()
    assert found == [None]


def test_a_broker_that_is_away_is_reported_by_the_call(partition: TopicPartition) -> None:
    absent = settings("127.0.0.1:1", default_api_timeout_ms="100", retry_backoff_ms="1")

    with (
        Reader(absent, {partition: ReadRange(0, 100)}, expect_one_fetch=True) as reader,
        pytest.raises(Unreachable),
    ):
        reader.poll()
    assert reader.ended


def test_the_first_call_keeps_its_time_limit_and_fetching_goes_on(
    broker: BrokerProcess, partition: TopicPartition
) -> None:
    ranges = {partition: ReadRange(100)}
    patient = settings(broker.address, fetch_max_wait_ms="30000")
    with Reader(patient, ranges, follow=True, expect_one_fetch=True) as reader:
        assert reader.poll(0.01) is None
        with Writer(settings(broker.address), partition.topic) as writer:
            writer.write(pa.table({"value": [b"late"]}))
        chunk = reader.poll(60)

    assert chunk is not None
    assert chunk.columns["value"].to_pylist() == [b"late"]


def test_an_interrupted_first_fetch_is_said_and_not_raised_again_and_again(
    broker: BrokerProcess, partition: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Prefetch) -> None:
        raise KeyboardInterrupt

    with Reader(
        settings(broker.address), {partition: ReadRange(0, 100)}, expect_one_fetch=True
    ) as reader:
        monkeypatch.setattr(Prefetch, "_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            reader.poll(60)
        with pytest.raises(ClientError, match="make another reader"):
            reader.poll(60)
        assert reader.ended
