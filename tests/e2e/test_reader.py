"""The bulk reader against Headrace and Apache Kafka: every record that was asked for, once, in
order, whatever happens to the log, the broker and the connection meanwhile."""

import doctest
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import (
    BrokerError,
    ClientError,
    ConnectionLost,
    DamagedBatch,
    PositionOutOfRange,
    Unreachable,
)
from headrace.client.network.pool import ConnectionPool
from headrace.client.read import reader as reader_module
from headrace.client.read.read_range import LogEdge, Moment, ReadRange
from headrace.client.read.reader import LostRange, Reader
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode
from testkit.fault.lossy_proxy import LossyProxy
from testkit.peer.transactional import transact, transactional_producer, write
from testkit.process.broker_process import BrokerProcess
from testkit.process.server_process import ServerProcess

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW_MS = 1_700_000_000_000


@pytest.fixture(params=["broker", "apache_kafka"])
def cluster(request: pytest.FixtureRequest) -> ServerProcess:
    """A Headrace broker, and Apache Kafka."""
    found: ServerProcess = request.getfixturevalue(request.param)
    return found


def settings(address: str, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": address} | {
        name.replace("_", "."): value for name, value in more.items()
    }


def on_admin(address: str, call: Callable[[Admin], dict[str, BrokerError | None]]) -> None:
    with ConnectionPool(ClientSettings.of(settings(address))) as pool:
        assert set(call(Admin(pool)).values()) == {None}


def create(address: str, topic: str, partitions: int = 1, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    on_admin(address, lambda admin: admin.create_topics([NewTopic(topic, partitions, 1, named)]))


def trim(address: str, partition: TopicPartition, offset: int) -> None:
    with ConnectionPool(ClientSettings.of(settings(address))) as pool:
        assert Admin(pool).delete_records({partition: offset}) == {partition: offset}


def put(address: str, topic: str, first: int, past: int, **options: int) -> None:
    """Numbers as values, a second apart, in batches of a few kilobytes."""
    numbers = range(first, past)
    table = pa.table(
        {
            "value": [b"%0100d" % number for number in numbers],
            "timestamp": pa.array([NOW_MS + 1000 * number for number in numbers], pa.int64()),
            "partition": pa.array([0] * len(numbers), pa.int32()),
        }
    )
    with Writer(settings(address), topic, **{"batch_bytes": 4000, **options}) as writer:
        writer.write(table)


def numbers(reader: Reader) -> list[int]:
    return [int(value) for chunk in reader for value in chunk.columns["value"].to_pylist()]


def prefetching() -> bool:
    return "headrace-prefetch" in {each.name for each in threading.enumerate()}


def added(reader: Reader, ranges: dict[TopicPartition, ReadRange]) -> bool:
    """Retry: a new partition may not be known to all brokers yet."""
    try:
        reader.add(ranges)
    except ClientError:
        return False
    return True


class TestWhatIsRead:
    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("views", [False, True])
    def test_every_column_of_every_codec(
        self, cluster: ServerProcess, topic: str, codec: str, views: bool
    ) -> None:
        create(cluster.address, topic)
        producer = Producer(settings(cluster.address, compression_type=codec, linger_ms="5"))
        for number in range(30):
            producer.produce(
                topic,
                partition=0,
                key=None if number % 5 == 0 else b"key %d" % (number % 7),
                value=None if number % 11 == 3 else b"value " * (number % 13),
                headers=[("n", b"%d" % number), ("none", None), ("", b"")][: number % 4],
                timestamp=NOW_MS + (number * 7919) % 5000,
            )
        assert producer.flush(60) == 0

        with Reader.of_topics(settings(cluster.address), topic, views=views) as reader:
            found = reader.read_all()

        rows = range(30)
        assert found["offset"].to_pylist() == list(rows)
        assert found["timestamp"].cast(pa.int64()).to_pylist() == [
            NOW_MS + (number * 7919) % 5000 for number in rows
        ]
        assert found["timestamp_type"].to_pylist() == [0] * 30
        assert found["key"].to_pylist() == [
            None if number % 5 == 0 else b"key %d" % (number % 7) for number in rows
        ]
        assert found["value"].to_pylist() == [
            None if number % 11 == 3 else b"value " * (number % 13) for number in rows
        ]
        assert found["headers"].to_pylist() == [
            [
                {"key": "n", "value": b"%d" % number},
                {"key": "none", "value": None},
                {"key": "", "value": b""},
            ][: number % 4]
            for number in rows
        ]

    def test_the_offsets_of_a_range_and_no_other(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic)
        put(cluster.address, topic, 0, 500)
        partition = TopicPartition(topic, 0)

        with Reader(settings(cluster.address), {partition: ReadRange(101, 433)}) as reader:
            found = numbers(reader)

        assert found == list(range(101, 433))
        assert reader.positions == {partition: 433}
        assert reader.ended

    def test_times_on_both_sides(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic)
        put(cluster.address, topic, 0, 100)
        start = datetime.fromtimestamp(NOW_MS / 1000 + 9.5, UTC)
        partition = TopicPartition(topic, 0)

        def read(start: Moment | datetime, end: Moment | None) -> list[int]:
            with Reader(settings(cluster.address), {partition: ReadRange(start, end)}) as reader:
                return numbers(reader)

        assert read(start, Moment(NOW_MS + 20_000)) == list(range(10, 20))
        assert read(start, None) == list(range(10, 100))
        assert read(Moment(0), Moment(NOW_MS * 2)) == list(range(100))
        assert read(Moment(NOW_MS * 2), None) == []

    def test_all_partitions_each_in_order(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic, partitions=5)
        with Writer(settings(cluster.address), topic, batch_bytes=2000) as writer:
            keys = [b"%d" % (number % 50) for number in range(3000)]
            writer.write(pa.table({"key": keys, "value": [b"%d" % n for n in range(3000)]}))

        with Reader.of_topics(settings(cluster.address), topic, batch_rows=7) as reader:
            found: dict[TopicPartition, list[int]] = {}
            for chunk in reader:
                assert 0 < chunk.columns.num_rows <= 7
                values = [int(value) for value in chunk.columns["value"].to_pylist()]
                found.setdefault(chunk.partition, []).extend(values)

        assert sorted(chain(*found.values())) == list(range(3000))
        assert all(values == sorted(values) for values in found.values())
        assert sum(reader.positions.values()) == 3000

    def test_chunks_say_where_to_read_on(self, broker: BrokerProcess, topic: str) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 300)
        partition = TopicPartition(topic, 0)
        with Reader.of_topics(settings(broker.address), topic, batch_rows=17) as reader:
            ends = [chunk.next_offset for chunk in reader]

        for middle in ends[::5]:
            ranges = {partition: ReadRange(middle)}
            with Reader(settings(broker.address), ranges) as rest:
                assert numbers(rest) == list(range(middle, 300))

    def test_a_batch_larger_than_every_limit(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic, partitions=3)
        values = [bytes([number]) * 300_000 for number in range(6)]
        rows = {"value": values, "partition": pa.array([0, 0, 1, 1, 2, 2], pa.int32())}
        with Writer(settings(cluster.address), topic) as writer:
            writer.write(pa.table(rows))
        limits = {"fetch_max_bytes": "1000", "max_partition_fetch_bytes": "1000"}

        tight = settings(cluster.address, **limits)
        with Reader.of_topics(tight, topic, max_bytes_in_flight=1) as reader:
            found = [value for chunk in reader for value in chunk.columns["value"].to_pylist()]

        assert sorted(found) == values

    def test_only_the_columns_asked_for(self, broker: BrokerProcess, topic: str) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 3)

        columns = ["value", "timestamp"]
        with Reader.of_topics(settings(broker.address), topic, columns=columns) as reader:
            assert reader.read_all().schema.names == columns

    def test_an_empty_topic_has_a_schema_and_an_end(
        self, cluster: ServerProcess, topic: str
    ) -> None:
        create(cluster.address, topic, partitions=2)

        with Reader.of_topics(settings(cluster.address), topic) as reader:
            found = reader.read_all()

        assert found.num_rows == 0
        assert found.schema.names == list(reader_module.COLUMNS)


class TestTransactions:
    def test_aborted_records_are_left_out_when_asked(
        self, cluster: ServerProcess, topic: str
    ) -> None:
        create(cluster.address, topic)
        first = transactional_producer(cluster.address, f"{topic}-first")
        second = transactional_producer(cluster.address, f"{topic}-second")
        for turn in range(4):
            second.begin_transaction()
            write(second, topic, b"second %d" % turn)
            transact(first, topic, b"first %d" % turn, commit=turn % 2 == 0)
            second.abort_transaction() if turn == 1 else second.commit_transaction()

        def read(read_committed: bool, fetch_bytes: int) -> tuple[list[bytes], int]:
            small = settings(cluster.address, max_partition_fetch_bytes=str(fetch_bytes))
            with Reader.of_topics(small, topic, read_committed=read_committed) as reader:
                values = reader.read_all()["value"].to_pylist()
            return values, reader.positions[TopicPartition(topic, 0)]

        committed = [b"second 0", b"first 0", b"second 2", b"first 2", b"second 3"]
        # Eight records and eight markers: the end is reached though nothing is shown behind it.
        for fetch_bytes in (1, 300, 1_000_000):  # one batch, a few, and all at once
            # A coordinator may respond before the last marker is in the partition.
            wait_until(lambda: read(True, fetch_bytes)[1] == 16, what="the last marker")  # noqa: B023
            assert read(True, fetch_bytes) == (committed, 16)
            assert len(read(False, fetch_bytes)[0]) == 8

    def test_what_an_open_transaction_wrote_is_behind_the_end(
        self, cluster: ServerProcess, topic: str
    ) -> None:
        create(cluster.address, topic)
        producer = transactional_producer(cluster.address, topic)
        transact(producer, topic, b"committed")
        producer.begin_transaction()
        write(producer, topic, b"open")

        with Reader.of_topics(settings(cluster.address), topic, read_committed=True) as reader:
            assert reader.read_all()["value"].to_pylist() == [b"committed"]
        producer.abort_transaction()

    def test_a_range_of_nothing_but_aborted_records_ends(
        self, broker: BrokerProcess, topic: str
    ) -> None:
        create(broker.address, topic)
        producer = transactional_producer(broker.address, topic)
        transact(producer, topic, b"a", b"b", b"c", commit=False)
        partition = TopicPartition(topic, 0)

        ranges = {partition: ReadRange(0, 3)}
        with Reader(settings(broker.address), ranges, read_committed=True) as reader:
            assert list(reader) == []
        assert reader.positions == {partition: 3}


class TestGaps:
    def test_what_was_compacted_away_is_passed_over(
        self, broker: BrokerProcess, topic: str
    ) -> None:
        create(
            broker.address,
            topic,
            cleanup_policy="compact",
            segment_bytes="20000",
            min_cleanable_dirty_ratio="0.01",
        )
        rows = {
            "key": [b"%d" % (number % 3) for number in range(600)],
            "value": [b"%0100d" % number for number in range(600)],
        }
        with Writer(settings(broker.address), topic, batch_bytes=2000) as writer:
            writer.write(pa.table(rows))
        partition = TopicPartition(topic, 0)

        def read(start: int, end: int) -> list[int]:
            ranges = {partition: ReadRange(start, end)}
            with Reader(settings(broker.address), ranges) as reader:
                found = numbers(reader)
            assert reader.positions == {partition: end}
            return found

        def parts_make_the_whole() -> bool:
            """Wherever a range begins and ends, in a gap or not, it has what is there."""
            before = read(0, 600)
            parts = [read(start, end) for start, end in pairwise(range(0, 601, 60))]
            # While compaction runs, the expected records are not known.
            return len(before) < 300 and before == [*chain(*parts)] == read(0, 600)

        wait_until(parts_make_the_whole, what="a whole made of parts after compaction")


class TestOutsideTheLog:
    def test_offsets_that_retention_took_are_named(
        self, cluster: ServerProcess, topic: str
    ) -> None:
        create(cluster.address, topic)
        put(cluster.address, topic, 0, 100)
        partition = TopicPartition(topic, 0)
        trim(cluster.address, partition, 60)

        with (
            Reader(settings(cluster.address), {partition: ReadRange(20, 80)}) as reader,
            pytest.raises(PositionOutOfRange, match="begins at 60 and ends at 100") as raised,
        ):
            reader.poll()

        error = raised.value
        assert (error.partition, error.offset) == (partition, 20)
        assert (error.log_start, error.log_end) == (60, 100)

    def test_or_skipped_with_reset(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic)
        put(cluster.address, topic, 0, 100)
        partition = TopicPartition(topic, 0)
        trim(cluster.address, partition, 60)

        ranges = {partition: ReadRange(20, 80)}
        with Reader(settings(cluster.address), ranges, reset=LogEdge.EARLIEST) as reader:
            assert numbers(reader) == list(range(60, 80))
        assert reader.lost == [LostRange(partition, 20, 60)]

    def test_retention_while_reading(self, broker: BrokerProcess, topic: str) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 2000)
        partition = TopicPartition(topic, 0)
        small = settings(broker.address, max_partition_fetch_bytes="5000")

        with Reader(small, {partition: ReadRange()}, max_bytes_in_flight=20_000) as reader:
            first = reader.poll(60)
            trim(broker.address, partition, 1900)
            assert first is not None
            seen = first.columns.num_rows
            with pytest.raises(PositionOutOfRange) as raised:
                for chunk in reader:
                    seen += chunk.columns.num_rows

        # Everything up to there was read: the error says exactly what is missing.
        assert raised.value.offset == reader.positions[partition] == seen
        assert raised.value.log_start == 1900

    def test_a_range_past_the_end_of_the_log(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic)
        put(cluster.address, topic, 0, 10)
        partition = TopicPartition(topic, 0)

        with (
            Reader(settings(cluster.address), {partition: ReadRange(50, 60)}) as reader,
            pytest.raises(PositionOutOfRange, match=r"offset 50 .* ends at 10"),
        ):
            reader.poll()
        with pytest.raises(PositionOutOfRange, match=r"offset 50 .* ends at 10"):
            Reader(settings(cluster.address), {partition: ReadRange(50, LogEdge.LATEST)})
        with Reader(
            settings(cluster.address), {partition: ReadRange(50, 60)}, reset=LogEdge.EARLIEST
        ) as reader:
            assert numbers(reader) == []
        assert reader.lost == [LostRange(partition, 50, 60)]

    def test_an_end_that_never_comes(self, broker: BrokerProcess, topic: str) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 10)
        hasty = settings(broker.address, default_api_timeout_ms="300", fetch_max_wait_ms="50")
        partition = TopicPartition(topic, 0)

        with (
            Reader(hasty, {partition: ReadRange(0, 20)}) as reader,
            pytest.raises(PositionOutOfRange) as raised,
        ):
            assert numbers(reader) == []
        assert (raised.value.offset, raised.value.log_end) == (10, 10)
        assert reader.positions == {partition: 10}

    def test_an_end_that_comes_later(self, broker: BrokerProcess, topic: str) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 10)
        partition = TopicPartition(topic, 0)

        with Reader(settings(broker.address), {partition: ReadRange(0, 15)}) as reader:
            first = reader.poll(60)
            assert first is not None
            assert first.columns.num_rows == 10
            put(broker.address, topic, 10, 20)
            assert numbers(reader) == list(range(10, 15))


class TestFollowing:
    def test_records_come_as_they_are_written(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic)
        with Reader.of_topics(settings(cluster.address), topic, follow=True) as reader:
            assert reader.poll(0.01) is None
            assert not reader.ended
            for number in range(3):
                put(cluster.address, topic, number, number + 1)
                chunk = reader.poll(60)
                assert chunk is not None
                assert chunk.next_offset == number + 1

    def test_only_what_is_new(self, broker: BrokerProcess, topic: str) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 5)
        latest = {TopicPartition(topic, 0): ReadRange(LogEdge.LATEST)}
        with Reader(settings(broker.address), latest, follow=True) as reader:
            put(broker.address, topic, 5, 7)
            chunk = reader.poll(60)
        assert chunk is not None
        assert chunk.columns["offset"][0].as_py() == 5

    def test_partitions_that_came_later(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic)
        put(cluster.address, topic, 0, 2)
        new = {TopicPartition(topic, 1): ReadRange()}
        with Reader.of_topics(settings(cluster.address), topic, follow=True) as reader:
            assert reader.poll(60) is not None
            on_admin(cluster.address, lambda admin: admin.create_partitions({topic: 2}))
            wait_until(lambda: added(reader, new), what="the new partition")
            row = pa.table({"value": ["new"], "partition": pa.array([1], pa.int32())})
            with Writer(settings(cluster.address), topic) as writer:
                writer.write(row)
            chunk = reader.poll(60)

            assert chunk is not None
            assert (chunk.partition, chunk.next_offset) == (TopicPartition(topic, 1), 1)
            assert reader.positions == {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 1}
            with pytest.raises(InvalidArgument, match="is read already"):
                reader.add(new)

    def test_nothing_is_added_to_a_reader_that_has_ended(
        self, broker: BrokerProcess, topic: str
    ) -> None:
        create(broker.address, topic, partitions=2)
        with Reader(settings(broker.address), {TopicPartition(topic, 0): ReadRange()}) as reader:
            assert list(reader) == []
            with pytest.raises(InvalidArgument, match="the reader has ended"):
                reader.add({TopicPartition(topic, 1): ReadRange()})

    def test_closing_from_another_thread_ends_the_loop(
        self, broker: BrokerProcess, topic: str
    ) -> None:
        create(broker.address, topic)
        reader = Reader.of_topics(settings(broker.address), topic, follow=True)
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.extend(reader))
        thread.start()
        put(broker.address, topic, 0, 1)
        wait_until(lambda: bool(found), what="the first chunk")

        reader.close()
        thread.join(60)

        assert not thread.is_alive()
        assert len(found) == 1
        wait_until(lambda: not prefetching(), what="the end of the fetching")


class TestFailures:
    def test_a_broker_killed_and_restarted_midway(
        self, own_broker: BrokerProcess, topic: str
    ) -> None:
        own_broker.start()
        create(own_broker.address, topic)
        put(own_broker.address, topic, 0, 5000)
        small = settings(own_broker.address, max_partition_fetch_bytes="10000")
        found: list[int] = []

        with Reader.of_topics(small, topic, max_bytes_in_flight=40_000) as reader:
            for turn, chunk in enumerate(reader):
                found += [int(value) for value in chunk.columns["value"].to_pylist()]
                if turn == 2:
                    own_broker.kill()
                    own_broker.start()

        assert found == list(range(5000))

    def test_connections_that_break_in_the_middle_of_answers(
        self, own_broker: BrokerProcess, topic: str
    ) -> None:
        with LossyProxy() as proxy:
            own_broker.settings |= {
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "advertised.listeners": f"PLAINTEXT://{proxy.address}",
            }
            own_broker.start()
            proxy.target(own_broker.address)
            create(own_broker.address, topic)
            put(own_broker.address, topic, 0, 3000)
            proxy.cut_after(20_001, 3, 50_000, 700, 11_111, 90_000)
            small = settings(
                own_broker.address, max_partition_fetch_bytes="15000", retry_backoff_ms="1"
            )

            with Reader.of_topics(small, topic) as reader:
                found = numbers(reader)

            assert found == list(range(3000))
            assert proxy.cut >= 4

    def test_a_broker_that_stays_away(self, own_broker: BrokerProcess, topic: str) -> None:
        own_broker.start()
        create(own_broker.address, topic)
        hasty = settings(own_broker.address, default_api_timeout_ms="300", fetch_max_wait_ms="50")
        with Reader.of_topics(hasty, topic, follow=True) as reader:
            assert reader.poll(0.1) is None
            own_broker.kill()
            # Lost if the first attempt after the end came late, as it does on a busy machine.
            with pytest.raises((Unreachable, ConnectionLost), match=f"cannot read {topic}-0"):
                reader.poll()

    def test_bytes_that_rotted_on_the_disk(self, own_broker: BrokerProcess, topic: str) -> None:
        own_broker.start()
        create(own_broker.address, topic)
        put(own_broker.address, topic, 0, 1000)
        segment = own_broker.data / f"{topic}-0" / f"{0:020}.log"
        stored = segment.read_bytes()
        at = stored.index(b"%0100d" % 500)
        with segment.open("r+b") as file:
            file.seek(at + 50)
            file.write(b"X")
        partition = TopicPartition(topic, 0)

        found = []
        with (
            Reader.of_topics(settings(own_broker.address), topic) as reader,
            pytest.raises(DamagedBatch, match="CRC") as raised,
        ):
            for chunk in reader:
                found += [int(value) for value in chunk.columns["value"].to_pylist()]

        # The sound batches before it were returned, and the error says where the next begins.
        assert found == list(range(raised.value.offset))
        assert raised.value.partition == partition
        assert 400 < raised.value.offset <= 500

    def test_a_topic_that_is_not_there(self, cluster: ServerProcess, topic: str) -> None:
        with pytest.raises(BrokerError, match=f"cannot read {topic}"):
            Reader.of_topics(settings(cluster.address), topic)

    def test_a_partition_that_is_not_there(self, cluster: ServerProcess, topic: str) -> None:
        create(cluster.address, topic)
        with pytest.raises(BrokerError, match=f"cannot read {topic}-7"):
            Reader(settings(cluster.address), {TopicPartition(topic, 7): ReadRange()})

    def test_a_topic_that_was_created_again(
        self, broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # However long it takes to create it, the reader does not give up on the deleted one before.
        monkeypatch.setattr("headrace.client.read.leader_search._NEW_TOPIC_SECONDS", 60.0)
        create(broker.address, topic)
        put(broker.address, topic, 0, 5)
        quick = settings(broker.address, fetch_max_wait_ms="10")
        with Reader.of_topics(quick, topic, follow=True) as reader:
            assert reader.poll(60) is not None
            on_admin(broker.address, lambda admin: admin.delete_topics([topic]))
            create(broker.address, topic)
            with pytest.raises(BrokerError, match="another of its name") as raised:
                reader.poll(60)
        assert raised.value.code is ErrorCode.unknown_topic_id


class TestMemory:
    def test_a_reader_that_is_forgotten_stops_fetching(
        self, broker: BrokerProcess, topic: str
    ) -> None:
        create(broker.address, topic)
        reader = Reader.of_topics(settings(broker.address), topic, follow=True)
        assert reader.poll(0.01) is None
        assert prefetching()

        del reader

        wait_until(lambda: not prefetching(), what="the end of the thread")

    def test_what_an_interruption_takes_is_not_passed_over(
        self, broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 100)

        def interrupted(*args: object, **options: object) -> None:
            raise KeyboardInterrupt

        with Reader.of_topics(settings(broker.address), topic) as reader:
            monkeypatch.setattr("headrace.client.read.chunk.decode", interrupted)
            with pytest.raises(KeyboardInterrupt):
                reader.poll()
            monkeypatch.undo()
            with pytest.raises(ClientError, match="starts at its positions"):
                reader.poll()
        assert reader.positions == {TopicPartition(topic, 0): 0}

    def test_fetching_stops_while_the_caller_does_not_read(
        self, broker: BrokerProcess, topic: str
    ) -> None:
        create(broker.address, topic)
        put(broker.address, topic, 0, 20_000)
        small = settings(broker.address, max_partition_fetch_bytes="30000")
        limit = 200_000

        with Reader.of_topics(small, topic, max_bytes_in_flight=limit) as reader:
            chunk = reader.poll(60)
            assert chunk is not None
            seen = chunk.columns.num_rows
            wait_until(lambda: reader.bytes_in_flight > limit // 2, what="the prefetch")
            held = []
            for chunk in reader:
                held.append(reader.bytes_in_flight)
                seen += chunk.columns.num_rows

        assert seen == 20_000
        assert max(held) <= limit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["colour"]}, "there is no column 'colour'"),
        ({"columns": "value"}, "columns is a list"),
        ({"columns": []}, "columns is a list"),
        ({"batch_rows": 0}, "at least one row"),
        ({"max_bytes_in_flight": 0}, "at least 1"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object], message: str) -> None:
    ranges = {TopicPartition("clicks", 0): ReadRange(0, 1)}
    with pytest.raises(InvalidArgument, match=message):
        Reader({}, ranges, **options)  # type: ignore[arg-type]


@pytest.fixture
def clicks(own_broker: BrokerProcess) -> str:
    """The address of a broker with the topic that the examples read."""
    own_broker.start()
    create(own_broker.address, "clicks", partitions=2)
    rows = {"value": ["one", "two", "three"], "partition": pa.array([0] * 3, pa.int32())}
    with Writer(settings(own_broker.address), "clicks") as writer:
        writer.write(pa.table(rows))
        writer.write(pa.table(rows).set_column(1, "partition", pa.array([1] * 3, pa.int32())))
    return own_broker.address


def test_the_examples_run(clicks: str) -> None:
    outcome = doctest.testmod(reader_module, extraglobs={"address": clicks})

    assert outcome.attempted == 5
    assert outcome.failed == 0

    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    reading = page[page.index("## Reading") :].partition("\n## ")[0]
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", reading, re.DOTALL):
        exec(block.replace("127.0.0.1:9092", clicks), names)
    table = names["table"]
    assert isinstance(table, pa.Table)
    assert table["value"].to_pylist().count(b"one") == 2
