"""Mirror topics of Apache Kafka's: its batches, its transactions, its compaction."""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.client import (
    Admin,
    ClientSettings,
    ConfigChange,
    ConfigOperation,
    ConfigResourceType,
    ConnectionPool,
    NewTopic,
)
from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import ApacheKafka
from testkit.process.broker_process import BrokerProcess


def read(address: str, topic: str, isolation: str) -> list[tuple[int, bytes | None, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while True:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is not None:
                return found
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


def end(address: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1]
    finally:
        consumer.close()


def test_a_topic_of_kafka_is_the_same_here(
    apache_kafka: ApacheKafka, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        plain = Producer({"bootstrap.servers": apache_kafka.address, "compression.type": codec})
        for number in range(50):
            plain.produce(topic, f"{codec} {number}" * 10, key=str(number), headers={"h": b"1"})
        assert plain.flush(60) == 0
    writer = Producer({"bootstrap.servers": apache_kafka.address, "transactional.id": topic})
    writer.init_transactions()
    for number, finish in enumerate((writer.commit_transaction, writer.abort_transaction) * 2):
        writer.begin_transaction()
        writer.produce(topic, f"transaction {number}")
        finish()
    with (
        ConnectionPool(ClientSettings.of({"bootstrap.servers": apache_kafka.address})) as source,
        ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as target,
    ):
        server = ConfigChange(ConfigOperation.SET, "bootstrap.servers", apache_kafka.address)
        Admin(target).alter_configs(ConfigResourceType.MIRROR_LINK, {"kafka": [server]})
        topic_id = str(source.metadata([topic]).topics[topic].topic_id)
        configs = {"headrace.mirror.link": "kafka", "headrace.mirror.topic.id": topic_id}
        assert Admin(target).create_topics([NewTopic(topic, 1, 1, configs)]) == {topic: None}

    expected = end(apache_kafka.address, topic)
    wait_until(lambda: end(broker.address, topic) == expected, what="the copy")
    for isolation in ("read_uncommitted", "read_committed"):
        theirs = read(apache_kafka.address, topic, isolation)
        assert read(broker.address, topic, isolation) == theirs
    assert len(theirs) == 252
