"""A stock client writes and reads."""

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from testkit.process.broker_process import BrokerProcess


def create(address: str, topic: str, partitions: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    new = NewTopic(
        topic, partitions, 1, config={k.replace("_", "."): v for k, v in configs.items()}
    )
    admin.create_topics([new])[topic].result(60)


def read(address: str, topic: str, partitions: int, count: int) -> list[tuple[int, bytes, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[tuple[int, bytes, bytes]] = []
    for _ in range(100):
        for message in consumer.consume(10_000, 0.5):
            assert message.error() is None
            found.append((message.partition(), message.key(), message.value()))
        if len(found) >= count:
            break
    consumer.close()
    return found


def test_what_was_produced_is_consumed(broker: BrokerProcess, topic: str) -> None:
    create(broker.address, topic, 3)
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": False})
    for number in range(3000):
        producer.produce(topic, value=b"%d" % number, key=b"k%d" % number, partition=number % 3)
    assert producer.flush(60) == 0

    found = read(broker.address, topic, 3, 3000)

    assert sorted(found) == sorted((n % 3, b"k%d" % n, b"%d" % n) for n in range(3000))


def test_records_survive_a_clean_restart(own_broker: BrokerProcess, topic: str) -> None:
    own_broker.start()
    create(own_broker.address, topic, 1)
    producer = Producer({"bootstrap.servers": own_broker.address, "enable.idempotence": False})
    for number in range(100):
        producer.produce(topic, value=b"%d" % number, key=b"k")
    assert producer.flush(60) == 0

    assert own_broker.stop() == 0
    own_broker.start()

    found = read(own_broker.address, topic, 1, 100)
    assert [value for _, _, value in found] == [b"%d" % number for number in range(100)]


def test_acks_all_needs_no_more_replicas_than_the_topic_has(
    broker: BrokerProcess, topic: str
) -> None:
    """As in Apache Kafka 4: min.insync.replicas above the replication factor means all of them."""
    create(broker.address, topic, 1, min_insync_replicas="2")

    def produce(acks: str) -> KafkaError | None:
        outcome: list[KafkaError | None] = []
        producer = Producer(
            {"bootstrap.servers": broker.address, "acks": acks, "message.timeout.ms": 60_000}
        )
        producer.produce(topic, b"v", on_delivery=lambda error, _: outcome.append(error))
        assert producer.flush(90) == 0
        return outcome[0]

    assert produce("1") is None
    assert produce("all") is None
