"""A mirror between two brokers: what arrives, and what is said when it cannot."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from headrace.testing.readiness import wait_until
from testkit.peer.stock_consumer import ConsumedRecord, read_topic
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic
from testkit.process.mirror_process import MirrorProcess
from testkit.sample.topic import SeenTopic, read_sample, write_sample


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("target")) as process:
        yield process


def mirror(
    folder: Path, source: BrokerProcess, target: BrokerProcess, topics: str, **more: str
) -> MirrorProcess:
    settings = {"a->b.enabled": "true", "a->b.topics": topics, "emit.heartbeats.enabled": "false"}
    clusters = {"a": source.address, "b": target.address}
    return MirrorProcess(folder, clusters, settings | more)


def fill(address: str, topic: str, numbers: range, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": address, "batch.num.messages": 100})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def wait_for(address: str, topic: str, values: list[bytes], partitions: int = 1) -> None:
    """Wait for so many records, then compare them."""

    def arrived() -> bool:
        return len(read(address, topic, partitions)) >= len(values)

    wait_until(arrived, what=f"{len(values)} records in {topic}")
    assert read(address, topic, partitions) == values


def wait_for_some(address: str, topic: str, more_than: int) -> None:
    """Wait until the first partition has more records, committed or not."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "looks-at-ends"})
    there = TopicPartition(topic, 0)
    wait_until(
        lambda: has_topic(address, topic) and consumer.get_watermark_offsets(there)[1] > more_than,
        what=f"more than {more_than} records in {topic}",
    )
    consumer.close()


def has_topic(address: str, topic: str, partitions: int = 1) -> bool:
    topics = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).topics
    return topic in topics and len(topics[topic].partitions) >= partitions


def read(address: str, topic: str, partitions: int = 1) -> list[bytes]:
    if not has_topic(address, topic, partitions):
        return []
    return read_to_end(address, topic, range(partitions))


def test_all_kinds_of_batches_arrive_as_a_reader_of_the_source_sees_them(
    tmp_path: Path, target: BrokerProcess
) -> None:
    with BrokerProcess(tmp_path / "source") as source:
        still_open = write_sample(source.address)
        wanted = read_sample(source.address)
        with mirror(tmp_path / "mirror", source, target, ".*") as running:
            for name, seen in wanted.items():
                wait_until(
                    lambda name=name, seen=seen: _is_copy(  # type: ignore[misc]
                        name, seen, copied(target.address, f"a.{name}")
                    ),
                    what=f"the copy of {name}",
                )
            assert "mirror_partition_stopped" not in running.log
        del still_open


def copied(address: str, topic: str) -> list[ConsumedRecord]:
    return read_topic(address, topic, [0])[0] if has_topic(address, topic) else []


def _is_copy(name: str, seen: SeenTopic, found: list[ConsumedRecord]) -> bool:
    """Compare times, keys, values and headers; of a compacted topic the last values only, for the
    target is compacted by itself. More records may follow when the open transaction timed out."""
    if name == "compacted":
        last = {each.key: each.value for each in seen.committed}
        return {each.key: each.value for each in found} == last
    rows = [(each.timestamp_ms, each.key, each.value, tuple(each.headers)) for each in found]
    wanted = [(each.timestamp_ms, each.key, each.value, each.headers) for each in seen.committed]
    assert b"never ended" not in [each.value for each in found]
    return rows[: len(wanted)] == wanted and (len(rows) == len(wanted) or name == "transactions")


def test_kills_neither_lose_nor_double_records(
    tmp_path: Path, broker: BrokerProcess, target: BrokerProcess, topic: str
) -> None:
    create_topic(broker.address, topic, 2)
    running = mirror(tmp_path, broker, target, topic)
    parts = [range(5_000), range(5_000, 10_000), range(10_000, 15_000)]
    with running:
        for part in parts:
            for partition in (0, 1):
                fill(broker.address, topic, part, partition)
            wait_for_some(target.address, f"a.{topic}", part.start)
            running.kill()
            running.start()
        values = [b"%d" % number for number in range(15_000)] * 2
        wait_for(target.address, f"a.{topic}", values, 2)


def test_a_topic_that_grows_and_one_that_is_new_are_copied(
    tmp_path: Path, broker: BrokerProcess, target: BrokerProcess, topic: str
) -> None:
    create_topic(broker.address, topic, 1)
    fill(broker.address, topic, range(10))
    with mirror(tmp_path, broker, target, f"{topic}.*"):
        wait_for(target.address, f"a.{topic}", [b"%d" % number for number in range(10)])
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
        fill(broker.address, topic, range(100, 105), partition=2)
        create_topic(broker.address, f"{topic}-new", 1)
        fill(broker.address, f"{topic}-new", range(7))

        grown = [*range(10), *range(100, 105)]
        wait_for(target.address, f"a.{topic}", [b"%d" % number for number in grown], 3)
        wait_for(target.address, f"a.{topic}-new", [b"%d" % number for number in range(7)])


def test_a_topic_that_was_created_again_is_said_and_left(
    tmp_path: Path, broker: BrokerProcess, target: BrokerProcess, topic: str
) -> None:
    create_topic(broker.address, topic, 1)
    fill(broker.address, topic, range(10))
    running = mirror(tmp_path, broker, target, topic)
    with running:
        wait_for(target.address, f"a.{topic}", [b"%d" % number for number in range(10)])
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.delete_topics([topic])[topic].result(30)
        create_topic(broker.address, topic, 1)
        fill(broker.address, topic, range(50, 80))

        wait_until(lambda: "recreated" in running.log, what="the error")
        assert read(target.address, f"a.{topic}") == [b"%d" % number for number in range(10)]

        # The way out that the message names.
        there = AdminClient({"bootstrap.servers": target.address})
        there.delete_topics([f"a.{topic}"])[f"a.{topic}"].result(30)
        wait_for(target.address, f"a.{topic}", [b"%d" % number for number in range(50, 80)])
