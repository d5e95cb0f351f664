"""compression.type: what the broker stores, whatever the producer sent."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.log.filesystem import Disk
from headrace.records.batch import iter_batches
from headrace.records.compression import Codec
from testkit.process.broker_process import BrokerProcess

STORED = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@pytest.mark.parametrize("configured", STORED)
def test_the_topics_codec_wins_over_the_producers(
    broker: BrokerProcess, topic: str, configured: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    new = NewTopic(topic, 1, 1, config={"compression.type": configured})
    admin.create_topics([new])[topic].result(90)
    sent = "zstd" if configured != "zstd" else "lz4"
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": sent})
    for number in range(200):
        producer.produce(topic, b"%d " % number * 50)
    assert producer.flush(90) == 0

    log = Disk().read_bytes(broker.data / f"{topic}-0" / f"{0:020d}.log")
    assert {batch.compression for batch in iter_batches(log)} == {STORED[configured]}

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while len(values) < 200:
        values += [message.value() for message in consumer.consume(200, 1.0)]
    consumer.close()
    assert values == [b"%d " % number * 50 for number in range(200)]
