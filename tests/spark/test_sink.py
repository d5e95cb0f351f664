"""`format("headrace")` as a sink, in a real Spark session."""

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.spark.data_source import HeadraceDataSource
from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import ApacheKafka
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.server_process import ServerProcess

PARTITIONS = 3


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(HeadraceDataSource)


def make_topic(peer: ServerProcess, name: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": peer.address})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


@pytest.fixture
def target(broker: BrokerProcess, topic: str) -> str:
    make_topic(broker, topic)
    return topic


def save(rows: DataFrame, peer: ServerProcess, **options: str) -> None:
    writer = rows.write.format("headrace").mode("append")
    writer.option("kafka.bootstrap.servers", peer.address).options(**options).save()


def visible(peer: ServerProcess, topic: str) -> list[str]:
    found = read_to_end(peer.address, topic, range(PARTITIONS))
    return sorted(value.decode() for value in found)


class Lines:
    """A stream whose batches are files, so that a batch can be replayed with the same rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._files = folder / "lines"
        self._files.mkdir()
        self.checkpoint = folder / "checkpoint"
        self._count = 0

    def add(self, *lines: str) -> None:
        self._count += 1
        (self._files / f"{self._count:04}.txt").write_text("\n".join(lines) + "\n")

    def run(self, peer: ServerProcess, topic: str, **options: str) -> StreamingQuery:
        """Write all files, one batch per file."""
        rows = self._spark.readStream.option("maxFilesPerTrigger", "1").text(str(self._files))
        writer = rows.writeStream.format("headrace").trigger(availableNow=True)
        writer = writer.option("kafka.bootstrap.servers", peer.address).options(**options)
        writer = writer.option("topic", topic).option("checkpointLocation", str(self.checkpoint))
        query = writer.start()
        query.awaitTermination()
        return query

    def forget_commit(self) -> None:
        """Remove Spark's commit, as if the driver had died after the sink's commit."""
        commits = [path for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit()]
        last = max(commits, key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> Lines:
    return Lines(spark, tmp_path)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_writes_a_batch_with_all_its_columns(
    spark: SparkSession, broker: BrokerProcess, target: str, guarantee: str
) -> None:
    rows = spark.createDataFrame(
        [("k", "v", [("h", b"1"), ("h", None)], 2, "red"), (None, None, None, 1, "blue")],
        "key string, value string, headers array<struct<key:string,value:binary>>, "
        "partition int, colour string",
    )

    save(rows, broker, topic=target, guarantee=guarantee)

    full, empty = read_records(broker, target, 2), read_records(broker, target, 1)
    assert full == [(b"k", b"v", [("h", b"1"), ("h", None)])]
    assert empty == [(None, None, [])]


def read_records(
    peer: ServerProcess, topic: str, partition: int
) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    consumer = Consumer({"bootstrap.servers": peer.address, "group.id": "sees-all"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        headers = [(name, value) for name, value in message.headers() or []]
        return [(message.key(), message.value(), headers)]
    finally:
        consumer.close()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_column_says_which_topic_each_row_goes_to(
    spark: SparkSession, broker: BrokerProcess, target: str, guarantee: str
) -> None:
    other = f"{target}-other"
    make_topic(broker, other)
    rows = spark.createDataFrame(
        [("1", target), ("2", other), ("3", target)], "value string, topic string"
    )

    save(rows, broker, guarantee=guarantee)

    assert (visible(broker, target), visible(broker, other)) == (["1", "3"], ["2"])


def test_places_keys_as_kafkas_clients_do(
    spark: SparkSession, broker: BrokerProcess, target: str
) -> None:
    from headrace.client.write.partitioner import partition_of

    keys = [f"key-{n}" for n in range(50)]
    rows = spark.createDataFrame([(key, key) for key in keys], "key string, value string")

    save(rows, broker, topic=target, guarantee="exactly-once")

    for partition in range(PARTITIONS):
        expected = {key for key in keys if partition_of(key.encode(), PARTITIONS) == partition}
        found = read_to_end(broker.address, target, [partition])
        assert {value.decode() for value in found} == expected


def test_a_batch_that_is_too_large_to_carry_is_staged_and_leaves_no_topic_behind(
    spark: SparkSession, broker: BrokerProcess, target: str
) -> None:
    count = 30_000
    rows = spark.range(0, count, 1, 2).selectExpr("lpad(string(id), 100, '0') AS value")

    save(rows, broker, topic=target, guarantee="exactly-once", sinkIdPrefix=f"stage-{target}")

    found = Counter(int(value) for value in visible(broker, target))
    assert found == Counter(range(count))
    topics = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=60).topics
    assert not [name for name in topics if name.startswith("stage-")]


def test_a_batch_write_that_is_repeated_adds_nothing(
    spark: SparkSession, broker: BrokerProcess, target: str
) -> None:
    rows = spark.createDataFrame([("a",), ("b",)], "value string")
    options = {"topic": target, "guarantee": "exactly-once", "sinkId": f"writes-{target}"}

    save(rows, broker, **options, batchId="1")
    save(rows, broker, **options, batchId="1")
    save(rows, broker, **options, batchId="2")

    assert visible(broker, target) == ["a", "a", "b", "b"]


def test_a_batch_with_a_task_that_fails_leaves_nothing_visible(
    spark: SparkSession, broker: BrokerProcess, target: str
) -> None:
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "IF(id = 999, raise_error('broken row'), string(id)) AS value"
    )

    with pytest.raises(PySparkException, match="broken row"):
        save(rows, broker, topic=target, guarantee="exactly-once")

    assert visible(broker, target) == []


def test_a_topic_cannot_be_overwritten(
    spark: SparkSession, broker: BrokerProcess, target: str
) -> None:
    writer = spark.range(1).selectExpr("string(id) AS value").write.format("headrace")
    writer = writer.option("kafka.bootstrap.servers", broker.address).option("topic", target)

    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.mode("overwrite").save()


def test_a_wrong_option_is_reported_with_the_right_spelling(
    spark: SparkSession, broker: BrokerProcess, target: str
) -> None:
    rows = spark.range(1).selectExpr("string(id) AS value")

    with pytest.raises(PySparkException, match="did you mean guarantee"):
        save(rows, broker, topic=target, guarante="exactly-once")


def test_a_stream_writes_every_row_once(broker: BrokerProcess, target: str, lines: Lines) -> None:
    lines.add("a", "b")
    lines.run(broker, target)
    lines.add("c")
    lines.run(broker, target)

    assert visible(broker, target) == ["a", "b", "c"]


def test_a_stream_adds_nothing_when_spark_replays_a_committed_batch(
    broker: BrokerProcess, target: str, lines: Lines
) -> None:
    lines.add("a")
    lines.add("b")
    lines.run(broker, target)
    lines.forget_commit()
    lines.add("c")

    lines.run(broker, target)

    assert visible(broker, target) == ["a", "b", "c"]


def test_at_least_once_writes_a_replayed_batch_again(
    broker: BrokerProcess, target: str, lines: Lines
) -> None:
    lines.add("a")
    lines.run(broker, target, guarantee="at-least-once")
    lines.forget_commit()

    lines.run(broker, target, guarantee="at-least-once")

    assert visible(broker, target) == ["a", "a"]


def test_a_batch_that_foreach_batch_repeats_adds_nothing(
    spark: SparkSession, broker: BrokerProcess, target: str, tmp_path: Path
) -> None:
    def run(checkpoint: str) -> None:
        """One batch, which writes its rows twice."""

        def write(rows: DataFrame, batch_id: int) -> None:
            for _ in range(2):
                save(
                    rows,
                    broker,
                    topic=target,
                    guarantee="exactly-once",
                    sinkId="repeated",
                    batchId=str(batch_id),
                )

        rows = spark.readStream.text(str(tmp_path / "lines"))
        writer = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()

    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.txt").write_text("a\nb\n")
    run("first")
    once = visible(broker, target)
    run("second")

    # The second query counts its batches from 0 too, and is not taken for the first.
    assert (once, visible(broker, target)) == (["a", "b"], ["a", "a", "b", "b"])


def test_a_stream_with_a_new_checkpoint_is_another_stream(
    spark: SparkSession, broker: BrokerProcess, target: str, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        lines = Lines(spark, tmp_path / name)
        lines.add(name)
        lines.run(broker, target)

    assert visible(broker, target) == ["first", "second"]


def test_the_sinks_group_shows_the_last_batch(
    broker: BrokerProcess, target: str, lines: Lines
) -> None:
    lines.add("a")
    lines.add("b")

    query = lines.run(broker, target, sinkIdPrefix="mine")

    group = f"mine-{query.id}"
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    try:
        (entry,) = consumer.committed([TopicPartition(target, 0)], timeout=60)
    finally:
        consumer.close()
    last = query.lastProgress
    assert last is not None
    assert entry.offset == last["batchId"]


def test_a_stream_goes_on_when_the_broker_is_killed_and_comes_back(
    spark: SparkSession, own_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    own_broker.start()
    source = f"{topic}-source"
    make_topic(own_broker, source)
    make_topic(own_broker, topic)
    producer = Producer({"bootstrap.servers": own_broker.address, "linger.ms": 0})
    reader = spark.readStream.format("headrace").option("subscribe", source)
    reader = reader.option("kafka.bootstrap.servers", own_broker.address)
    rows = reader.option("startingOffsets", "earliest").load().select("value")
    writer = rows.writeStream.format("headrace").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", own_broker.address)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    expected = []
    try:
        for value in ("before", "after"):
            expected.append(value)
            producer.produce(source, value)
            assert producer.flush(60) == 0
            wait_until(
                lambda: len(visible(own_broker, topic)) >= len(expected) or not query.isActive,
                what=f"the record {value} in the target topic",
                timeout_seconds=300,
            )
            own_broker.kill()
            own_broker.start()
        assert query.isActive, query.exception()
    finally:
        query.stop()

    assert visible(own_broker, topic) == sorted(expected)


@pytest.fixture
def peer_topic(apache_kafka: ApacheKafka, topic: str) -> str:
    make_topic(apache_kafka, topic)
    return topic


def test_a_stream_writes_to_apache_kafka_once(
    apache_kafka: ApacheKafka, peer_topic: str, lines: Lines
) -> None:
    lines.add("a", "b")
    lines.run(apache_kafka, peer_topic)
    lines.forget_commit()

    lines.run(apache_kafka, peer_topic)

    assert visible(apache_kafka, peer_topic) == ["a", "b"]
