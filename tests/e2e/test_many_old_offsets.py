"""Clients read many partitions from their start, after a restart: no offset is in memory."""

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client import Reader
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess

TOPIC = "clicks"
PARTITIONS = 100
RECORDS = 3


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("many"), QUICK_SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(90)
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all", "log_level": 0})
        for number in range(RECORDS):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, str(number).encode(), partition=partition)
            assert producer.flush(90) == 0
        broker.stop()
        broker.start()
        yield broker.address


def test_librdkafka_which_has_no_session_reads_all(address: str) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    received: Counter[int] = Counter()

    def all_came() -> bool:
        for message in consumer.consume(PARTITIONS * RECORDS, 0.2):
            assert message.error() is None
            partition = message.partition()
            assert partition is not None
            assert message.offset() == received[partition]
            received[partition] += 1
        return received.total() == PARTITIONS * RECORDS

    try:
        wait_until(all_came, what="every record", timeout_seconds=90.0)
    finally:
        consumer.close()
    assert set(received.values()) == {RECORDS}


@pytest.mark.parametrize("in_one_fetch", [False, True])
def test_a_reader_reads_all(address: str, in_one_fetch: bool) -> None:
    settings = {"bootstrap.servers": address}

    with Reader.of_topics(settings, TOPIC, expect_one_fetch=in_one_fetch) as reader:
        read = sorted(
            (chunk.partition.partition, offset)
            for chunk in reader
            for offset in chunk.columns["offset"].to_pylist()
        )

    assert read == [(each, offset) for each in range(PARTITIONS) for offset in range(RECORDS)]
