"""The bulk writer against Headrace and Apache Kafka: stock clients read what it wrote, once, in
order, whatever failed meanwhile."""

import doctest
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as StockPartition

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError, ClientError, ProducerFenced, WriteFailed
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.client.settings import ClientSettings
from headrace.client.write import writer as writer_module
from headrace.client.write.transaction_calls import OffsetAndMetadata
from headrace.client.write.writer import Writer
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode
from testkit.fault.lossy_proxy import LossyProxy
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.server_process import ServerProcess

PARTITIONS = range(6)


@pytest.fixture(params=["broker", "apache_kafka"])
def cluster(request: pytest.FixtureRequest) -> ServerProcess:
    """A Headrace broker, and Apache Kafka."""
    found: ServerProcess = request.getfixturevalue(request.param)
    return found


def settings(address: str) -> ClientSettings:
    return ClientSettings.of({"bootstrap.servers": address})


def create(address: str, topic: str, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    with ConnectionPool(settings(address)) as pool:
        [outcome] = Admin(pool).create_topics([NewTopic(topic, len(PARTITIONS), 1, named)]).values()
    assert outcome is None


@pytest.fixture
def clicks(cluster: ServerProcess, topic: str) -> str:
    """A topic of six partitions."""
    create(cluster.address, topic)
    return topic


def test_topics_are_known_and_led_as_soon_as_they_are_made(
    cluster: ServerProcess, topic: str
) -> None:
    names = [f"{topic}-{number}" for number in range(20)]
    with ConnectionPool(settings(cluster.address)) as pool:
        outcomes = Admin(pool).create_topics([NewTopic(name, 3, 1) for name in names])
        found = pool.metadata(names).topics

    assert outcomes == dict.fromkeys(names)
    assert all(found[name].error is None for name in names)
    assert [len(found[name].partitions) for name in names] == [3] * len(names)
    assert all(each.leader >= 0 for name in names for each in found[name].partitions.values())


def numbered(first: int, past: int, size: int = 100) -> pa.Table:
    """Rows whose values are numbers, all with the same key, so that their order is known."""
    return pa.table(
        {"key": ["k"] * (past - first), "value": [b"%0*d" % (size, n) for n in range(first, past)]}
    )


def values(address: str, topic: str, *, committed: bool = True) -> list[int]:
    """Return the numbers in a topic, which all have the same key."""
    partitions = [TopicPartition(topic, index) for index in PARTITIONS]
    found: list[int] = []
    with ConnectionPool(settings(address)) as pool:
        ends = extents(pool, partitions, read_committed=committed)
        past = {each: extent.end for each, extent in ends.items() if isinstance(extent, LogExtent)}
        start = {each: 0 for each, end in past.items() if end}
        reader = BatchReader(pool, start, read_committed=committed)
        while reader.positions:
            for fetched in reader.poll():
                assert fetched.error is None
                decoded = decode(fetched.data, start_offset=fetched.offset, aborted=fetched.aborted)
                found += [int(each) for each in decoded.columns["value"].to_pylist()]
                reader.positions[fetched.partition] = decoded.next_offset
                if decoded.next_offset >= past[fetched.partition]:
                    del reader.positions[fetched.partition]
    return found


def wait_for_values(address: str, topic: str, expected: list[int]) -> None:
    """Wait: a coordinator may respond before the markers of a transaction are in all partitions."""
    wait_until(lambda: values(address, topic) == expected, what=f"what was committed to {topic}")


def test_a_stock_consumer_reads_every_column_in_every_codec(
    cluster: ServerProcess, clicks: str
) -> None:
    headers = [[("source", b"web"), ("empty", b""), ("none", None)], None, []]
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for partition, codec in enumerate(codecs):
        table = pa.table(
            {
                "key": pa.array([b"\x00\xff", None, b""], pa.binary_view()),
                "value": pa.array([None, "caf\u00e9", ""], pa.large_string()),
                "headers": pa.array(headers, pa.map_(pa.string(), pa.binary())),
                "timestamp": pa.array([1, 1_700_000_000_000, 2], pa.timestamp("ms", "UTC")),
                "partition": pa.array([partition] * 3, pa.int32()),
            }
        )

        with Writer(settings(cluster.address), clicks, codec=codec) as writer:
            writer.write(table)

    found = read_topic(cluster.address, clicks, PARTITIONS)
    for partition, codec in enumerate(codecs):
        assert [each[1:] for each in found[partition]] == [
            (1, b"\x00\xff", None, [("source", b"web"), ("empty", b""), ("none", None)]),
            (1_700_000_000_000, None, "caf\u00e9".encode(), []),
            (2, b"", b"", []),
        ], codec


def test_keys_go_where_librdkafka_puts_them(cluster: ServerProcess, clicks: str) -> None:
    keys = [b"key-%d" % number * (number % 5 + 1) for number in range(500)]
    theirs = f"{clicks}-theirs"
    create(cluster.address, theirs)
    producer = Producer(
        {"bootstrap.servers": cluster.address, "partitioner": "murmur2_random", "linger.ms": 5}
    )
    for key in keys:
        producer.produce(theirs, key=key, value=key)
    assert producer.flush(30) == 0

    with Writer(settings(cluster.address), clicks) as writer:
        writer.write(pa.table({"key": keys, "value": keys}))

    ours = read_topic(cluster.address, clicks, PARTITIONS)
    expected = read_topic(cluster.address, theirs, PARTITIONS)
    for partition in PARTITIONS:
        assert [each.key for each in ours[partition]] == [each.key for each in expected[partition]]


def test_rows_without_a_key_spread_over_all_partitions(cluster: ServerProcess, clicks: str) -> None:
    table = pa.table({"value": ["x" * 1000] * 3000})

    with Writer(settings(cluster.address), clicks, batch_bytes=100_000) as writer:
        writer.write(table)
        writer.flush()
        written = writer.written

    assert {each.partition for each in written} == set(PARTITIONS)
    assert sum(each.records for each in written.values()) == 3000


def test_many_small_writes_keep_their_order(cluster: ServerProcess, clicks: str) -> None:
    with Writer(settings(cluster.address), clicks, batch_bytes=2000, memory_bytes=20_000) as writer:
        for first in range(0, 2000, 7):
            writer.write(numbered(first, min(first + 7, 2000)))

    assert values(cluster.address, clicks) == list(range(2000))


def test_held_memory_is_bounded(cluster: ServerProcess, clicks: str) -> None:
    most = 0
    with Writer(
        settings(cluster.address), clicks, batch_bytes=10_000, memory_bytes=100_000
    ) as writer:
        for first in range(0, 20_000, 500):
            writer.write(numbered(first, first + 500))
            most = max(most, writer.held_bytes)

    assert 0 < most <= 100_000
    assert values(cluster.address, clicks) == list(range(20_000))


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_every_kind_of_acknowledgement(
    cluster: ServerProcess, clicks: str, acks: "str | int"
) -> None:
    with Writer(settings(cluster.address), clicks) as writer:
        writer.write(numbered(0, 1))  # waits for a leader, which acks=0 would not
    with Writer(settings(cluster.address), clicks, acks=acks, idempotent=False) as writer:  # type: ignore[arg-type]
        writer.write(numbered(1, 11))
        writer.flush()
        written = writer.written

    assert sum(each.records for each in written.values()) == 10
    wait_until(
        lambda: values(cluster.address, clicks) == list(range(11)),
        what="records without acknowledgement",
    )


def test_a_refused_batch_names_its_partition_and_the_reason(
    cluster: ServerProcess, topic: str
) -> None:
    create(cluster.address, topic, max_message_bytes="1000")
    writer = Writer(settings(cluster.address), topic)
    writer.write(pa.table({"value": ["x" * 2000], "partition": [4]}))

    with pytest.raises(WriteFailed, match=rf"{topic}-4: .*smaller batch_bytes") as failed:
        writer.flush()

    assert failed.value.partition == TopicPartition(topic, 4)
    assert isinstance(failed.value.reason, BrokerError)
    assert failed.value.reason.code is ErrorCode.message_too_large
    with pytest.raises(WriteFailed):
        writer.write(pa.table({"value": ["small"]}))
    with pytest.raises(WriteFailed):
        writer.close()


def test_a_topic_that_is_not_there_is_an_error_soon(cluster: ServerProcess, topic: str) -> None:
    with (
        Writer(settings(cluster.address)) as writer,
        pytest.raises(ClientError, match=f"cannot write to topic {topic}: there is no such topic"),
    ):
        writer.write(pa.table({"value": ["x"]}), topic)


def test_a_queue_starts_over_when_the_broker_lost_the_producers_state(
    cluster: ServerProcess, clicks: str
) -> None:
    with Writer(settings(cluster.address), clicks) as writer:
        writer.write(numbered(0, 10))
        writer.flush()
        [queue] = writer._sender.queues.values()
        queue._next_sequence += 5  # as after an unclean election that lost records

        writer.write(numbered(10, 20))
        writer.flush()

        assert queue.identity.epoch == 1
    assert values(cluster.address, clicks) == list(range(20))


class TestRestart:
    def test_a_killed_broker_gets_everything_once_and_in_order(
        self, own_broker: BrokerProcess, topic: str
    ) -> None:
        own_broker.start()
        create(own_broker.address, topic)
        with Writer(settings(own_broker.address), topic, batch_bytes=20_000) as writer:
            for turn in range(2):
                writer.write(numbered(turn * 5000, turn * 5000 + 5000))
                own_broker.kill()
                own_broker.start()
            writer.write(numbered(10_000, 11_000))

        assert values(own_broker.address, topic) == list(range(11_000))

    def test_answers_that_get_lost_double_nothing(
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
            with Writer(settings(own_broker.address), topic, batch_bytes=20_000) as writer:
                for first in range(0, 20_000, 2000):
                    proxy.lose_answers(1)
                    writer.write(numbered(first, first + 2000))
                    writer.flush()

            assert proxy.lost == 10
            assert values(own_broker.address, topic) == list(range(20_000))

    def test_a_writer_gives_up_on_a_broker_that_stays_away(
        self, own_broker: BrokerProcess, topic: str
    ) -> None:
        own_broker.start()
        create(own_broker.address, topic)
        patience = {"bootstrap.servers": own_broker.address, "default.api.timeout.ms": "500"}
        writer = Writer(patience, topic)
        writer.write(numbered(0, 10))
        writer.flush()
        own_broker.kill()
        writer.write(numbered(10, 20))

        with pytest.raises(WriteFailed, match=topic):
            writer.flush()
        with pytest.raises(WriteFailed):
            writer.close()


@pytest.fixture(params=["new", "old"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Transactions as KIP-890 has them, and as they were before."""
    if request.param == "old":
        monkeypatch.setattr(
            "headrace.client.write.transaction_calls._has_second_version", lambda _: False
        )
    return


@pytest.mark.usefixtures("protocol")
class TestTransaction:
    def test_records_are_seen_when_they_are_committed(
        self, cluster: ServerProcess, clicks: str
    ) -> None:
        with Writer(settings(cluster.address), clicks, transactional_id=clicks) as writer:
            writer.begin()
            writer.write(numbered(0, 10))
            writer.flush()
            assert values(cluster.address, clicks) == []
            assert values(cluster.address, clicks, committed=False) == list(range(10))

            writer.commit()

        wait_for_values(cluster.address, clicks, list(range(10)))

    def test_one_transaction_after_another(self, cluster: ServerProcess, clicks: str) -> None:
        with Writer(settings(cluster.address), clicks, transactional_id=clicks) as writer:
            for turn in range(5):
                with writer.transaction():
                    writer.write(numbered(turn * 10, turn * 10 + 10))
            with writer.transaction():
                pass

        wait_for_values(cluster.address, clicks, list(range(50)))

    def test_an_error_aborts_and_the_next_one_commits(
        self, cluster: ServerProcess, clicks: str
    ) -> None:
        with Writer(settings(cluster.address), clicks, transactional_id=clicks) as writer:
            with pytest.raises(ZeroDivisionError), writer.transaction():
                writer.write(numbered(0, 10))
                writer.flush()
                raise ZeroDivisionError
            with writer.transaction():
                writer.write(numbered(10, 20))

        wait_for_values(cluster.address, clicks, list(range(10, 20)))

    def test_a_failed_write_aborts_and_the_next_one_commits(
        self, cluster: ServerProcess, topic: str
    ) -> None:
        create(cluster.address, topic, max_message_bytes="1000")
        with Writer(settings(cluster.address), topic, transactional_id=topic) as writer:
            with pytest.raises(WriteFailed), writer.transaction():
                writer.write(numbered(0, 1))
                writer.flush()
                writer.write(pa.table({"key": ["k"], "value": ["x" * 2000]}))
            with writer.transaction():
                writer.write(numbered(1, 4))

        wait_for_values(cluster.address, topic, [1, 2, 3])

    def test_a_new_writer_fences_the_old_one(self, cluster: ServerProcess, clicks: str) -> None:
        old = Writer(settings(cluster.address), clicks, transactional_id=clicks)
        old.begin()
        old.write(numbered(0, 10))
        old.flush()

        with Writer(settings(cluster.address), clicks, transactional_id=clicks) as new:
            new.init_transactions()
            with pytest.raises(ProducerFenced, match=clicks):
                old.commit()
            old.close()
            with new.transaction():
                new.write(numbered(10, 20))

        wait_for_values(cluster.address, clicks, list(range(10, 20)))

    def test_a_fenced_writer_learns_it_when_it_writes(
        self, cluster: ServerProcess, clicks: str
    ) -> None:
        old = Writer(settings(cluster.address), clicks, transactional_id=clicks)
        old.begin()
        old.write(numbered(0, 10))
        old.flush()
        with Writer(settings(cluster.address), clicks, transactional_id=clicks) as new:
            new.init_transactions()

            old.write(numbered(10, 20))
            with pytest.raises(ProducerFenced, match=clicks):
                old.flush()

        old.close()
        wait_for_values(cluster.address, clicks, [])

    def test_offsets_are_committed_with_the_records(
        self, cluster: ServerProcess, clicks: str, group: str
    ) -> None:
        source = TopicPartition(clicks, 0)
        with Writer(settings(cluster.address), clicks, transactional_id=clicks) as writer:
            with writer.transaction():
                writer.send_offsets(group, {source: OffsetAndMetadata(7, "batch 1")})
                writer.write(numbered(0, 1))
            with pytest.raises(ZeroDivisionError), writer.transaction():
                writer.send_offsets(group, {source: 9})
                raise ZeroDivisionError

        consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": group})

        def committed() -> tuple[int, str | None]:
            [found] = consumer.committed([StockPartition(clicks, 0)], 30)
            return found.offset, found.metadata

        wait_until(lambda: committed() == (7, "batch 1"), what="the offsets of the transaction")
        consumer.close()


class TestHandOver:
    @pytest.mark.parametrize("commit", [True, False])
    def test_a_prepared_transaction_is_ended_by_another_process(
        self, cluster: ServerProcess, clicks: str, commit: bool
    ) -> None:
        writer = Writer(settings(cluster.address), clicks, transactional_id=clicks)
        writer.begin()
        writer.write(numbered(0, 10))
        prepared = pickle.loads(pickle.dumps(writer.prepare()))
        writer.close()

        with ConnectionPool(settings(cluster.address)) as pool:
            for _ in range(2):
                prepared.commit(pool) if commit else prepared.abort(pool)

        wait_for_values(cluster.address, clicks, (list(range(10)) if commit else []))

    def test_a_writer_that_goes_away_aborts(self, cluster: ServerProcess, clicks: str) -> None:
        with Writer(settings(cluster.address), clicks, transactional_id=clicks) as writer:
            writer.begin()
            writer.write(numbered(0, 10))
            writer.flush()

        with Writer(settings(cluster.address), clicks) as writer:
            writer.write(numbered(10, 11))
        wait_for_values(cluster.address, clicks, [10])


def test_a_transaction_survives_a_killed_broker(own_broker: BrokerProcess, topic: str) -> None:
    own_broker.start()
    create(own_broker.address, topic)
    with (
        Writer(
            settings(own_broker.address), topic, transactional_id=topic, batch_bytes=20_000
        ) as writer,
        writer.transaction(),
    ):
        writer.write(numbered(0, 5000))
        own_broker.kill()
        own_broker.start()
        writer.write(numbered(5000, 6000))

    wait_for_values(own_broker.address, topic, list(range(6000)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acks": 1}, "needs acks='all'"),
        ({"acks": "some"}, "it is 'all', 1 or 0"),
        ({"max_in_flight": 6}, "between 1 and 5"),
        ({"transactional_id": "t", "idempotent": False}, "is idempotent"),
        ({"transactional_id": ""}, "cannot be empty"),
        ({"memory_bytes": 0}, "at least 1"),
        ({"codec": "brotli"}, "no compression codec"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Writer({}, **options)  # type: ignore[arg-type]


def test_the_examples_run(own_broker: BrokerProcess) -> None:
    own_broker.start()
    with ConnectionPool(settings(own_broker.address)) as pool:
        topics = [NewTopic(name, 3, 1) for name in ("clicks", "invoices", "orders")]
        assert not any(Admin(pool).create_topics(topics).values())

    outcome = doctest.testmod(writer_module, extraglobs={"address": own_broker.address})

    assert outcome.attempted == 4
    assert outcome.failed == 0

    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    writing = page[page.index("## Writing") :].partition("\n## ")[0]
    names: dict[str, object] = {"settings": {"bootstrap.servers": own_broker.address}}
    for block in re.findall(r"```python\n(.*?)```", writing, re.DOTALL):
        exec(block, names)
    found = read_topic(own_broker.address, "clicks", range(3))
    assert sorted(each.value or b"" for records in found.values() for each in records) == [
        *(b"/cart", b"/cart", b"/home", b"/home")
    ]


def test_calls_that_cannot_be_meant(broker: BrokerProcess, topic: str) -> None:
    create(broker.address, topic)
    with Writer(settings(broker.address)) as writer:
        with pytest.raises(InvalidArgument, match="no topic"):
            writer.write(numbered(0, 1))
        with pytest.raises(InvalidArgument, match="no transactional_id"):
            writer.begin()
        with pytest.raises(InvalidArgument, match="pyarrow RecordBatch or Table, not as list"):
            writer.write([1], topic)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="no column 'colour'"):
            writer.write(pa.table({"colour": ["red"]}), topic)
        with pytest.raises(InvalidArgument, match="'value' is int64"):
            writer.write(pa.table({"value": [1]}), topic)
        with pytest.raises(InvalidArgument, match="partitions 0 to 5, and no 6"):
            writer.write(pa.table({"value": ["x"], "partition": [6]}), topic)
    with pytest.raises(InvalidArgument, match="closed"):
        writer.write(numbered(0, 1), topic)
    with Writer(settings(broker.address), topic, transactional_id="t") as writer:
        with pytest.raises(InvalidArgument, match="no transaction is open"):
            writer.write(numbered(0, 1))
        writer.begin()
        with pytest.raises(InvalidArgument, match="open already"):
            writer.begin()
