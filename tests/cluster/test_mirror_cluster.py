"""A mirror topic with three replicas: whichever broker leads it copies it."""

import uuid
from collections import Counter

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

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

RECORDS = 200


def produce(address, topic, values):
    producer = Producer({"bootstrap.servers": address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def end(address, topic):
    """Return the end of a topic, None when its leader does not answer: it may be dead."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)[1]
    except KafkaException:
        return None
    finally:
        consumer.close()


def wait_for_copy(source, target, topic):
    wait_until(lambda: end(source, topic) is not None, what="the end of the source")
    expected = end(source, topic)
    wait_until(lambda: end(target, topic) == expected, what=f"a copy up to {expected}")


def records(address, topic):
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.partition.eof": True}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while True:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is not None:
                return found
            found.append((message.offset(), message.value()))
    finally:
        consumer.close()


def test_the_next_leader_goes_on_where_the_last_one_ended(broker, own_cluster):
    topic = f"clicks-{uuid.uuid4().hex[:8]}"
    with (
        ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as source,
        ConnectionPool(ClientSettings.of({"bootstrap.servers": own_cluster.address})) as target,
    ):
        assert Admin(source).create_topics([NewTopic(topic, 1, 1)]) == {topic: None}
        server = ConfigChange(ConfigOperation.SET, "bootstrap.servers", broker.address)
        assert Admin(target).alter_configs(ConfigResourceType.MIRROR_LINK, {"east": [server]}) == {
            "east": None
        }
        topic_id = str(source.metadata([topic]).topics[topic].topic_id)
        configs = {
            "headrace.mirror.link": "east",
            "headrace.mirror.topic.id": topic_id,
            "min.insync.replicas": "2",
        }
        assert Admin(target).create_topics([NewTopic(topic, 1, 3, configs)]) == {topic: None}

    for number in range(3):
        produce(broker.address, topic, [f"{number} {i}" for i in range(RECORDS)])
        wait_for_copy(broker.address, own_cluster.address, topic)
        killed = own_cluster.leader(topic)
        own_cluster.broker(killed).kill()
        produce(broker.address, topic, [f"{number} {i}" for i in range(RECORDS)])
        wait_for_copy(broker.address, own_cluster.address, topic)
        own_cluster.broker(killed).start()
        own_cluster.wait_in_sync(topic)

    copied = records(own_cluster.address, topic)
    assert copied == records(broker.address, topic)
    assert max(Counter(offset for offset, _ in copied).values()) == 1
    assert len(copied) == 6 * RECORDS
