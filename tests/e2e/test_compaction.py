"""A compacted topic as its readers see it."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess

SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def create(address: str, topic: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, 1, config=SETTINGS)])[topic].result(90)
    return admin


def write(address: str, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
    # Small batches, so that there are segments behind the active one, which is never compacted.
    producer = Producer({"bootstrap.servers": address, "batch.num.messages": 50})
    for key, value in records:
        producer.produce(topic, key=key, value=value)
        producer.poll(0)
    assert producer.flush(90) == 0


def read(address: str, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    partition = TopicPartition(topic, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=60)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []
    while consumer.position([partition])[0].offset < end:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def test_readers_find_the_last_value_of_each_key(broker: BrokerProcess, topic: str) -> None:
    create(broker.address, topic)
    rounds = [(b"k%d" % (n % 10), b"%05d" % n + b"x" * 200) for n in range(2000)]

    write(broker.address, topic, rounds)

    def compacted() -> bool:
        return len(read(broker.address, topic)) < 300

    wait_until(compacted, what="the compaction", timeout_seconds=60)
    left = read(broker.address, topic)
    assert {key: value for _, key, value in left} == dict(rounds)
    assert [offset for offset, _, _ in left] == sorted(offset for offset, _, _ in left)
    assert all(rounds[offset] == (key, value) for offset, key, value in left)


def test_a_topic_may_be_deleted_while_it_is_compacted(broker: BrokerProcess, topic: str) -> None:
    admin = create(broker.address, topic)
    write(broker.address, topic, [(b"k%d" % (n % 9), b"x" * 200) for n in range(2000)])

    admin.delete_topics([topic])[topic].result(90)

    create(broker.address, topic)
    write(broker.address, topic, [(b"new", b"life")])
    assert read(broker.address, topic) == [(0, b"new", b"life")]
