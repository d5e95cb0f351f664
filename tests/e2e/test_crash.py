"""kill -9 under load: what was acknowledged is there, once, in order."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess

TOPIC = "clicks"
PARTITIONS = 3
KILLS = 3
PRODUCERS = "ab"
_BATCH_RECORDS = 20
# A second crash before what was sent again after the first one is answered may fail a producer, as
# with Kafka: a snapshot of producers keeps the last batch of each, so only that one is known as a
# duplicate. So records that were produced after a start must be answered before the next crash, in
# every partition: by its order all earlier ones are by then.
_AFTER_EACH_START = 6 * _BATCH_RECORDS * PARTITIONS


class Load:
    """Two idempotent producers with acks=all that go on over the crashes of their broker.

    Attributes:
        acknowledged: (partition, offset) to value, as delivery reports said.
        produced: how many records, by producer.
        answered: the number of the last one that was acknowledged, by producer and partition.
    """

    def __init__(self, address: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.produced: Counter[str] = Counter()
        self.answered: Counter[tuple[str, int]] = Counter()
        self.failed: list[str] = []
        self._address = address
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in PRODUCERS]
        for thread in self._threads:
            thread.start()

    def _run(self, name: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": _BATCH_RECORDS,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 120_000,
            }
        )
        number = 0
        while not self._stop.is_set():
            value = b"%s-%d" % (name.encode(), number)
            producer.produce(TOPIC, value, partition=number % PARTITIONS, callback=self._reported)
            number += 1
            self.produced[name] = number
            producer.poll(0.001 if len(producer) < 500 else 0.05)
        producer.flush(60)

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and isinstance(value, bytes)
        self.acknowledged[partition, offset] = value
        name, _, number = value.decode().partition("-")
        self.answered[name, partition] = int(number)

    def all_went_on_since(self, produced: "Counter[str]") -> bool:
        """Whether every producer has got on in every partition, after having produced so many."""
        return all(
            self.answered[name, partition] >= produced[name] + _AFTER_EACH_START
            for name in PRODUCERS
            for partition in range(PARTITIONS)
        )

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)


@contextmanager
def load(address: str) -> Iterator[Load]:
    running = Load(address)
    try:
        yield running
    finally:
        running.stop()


def stored(address: str) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and value of every record, by partition, in the order they are read."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    )
    partitions = [TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)]
    ends = {each.partition: consumer.get_watermark_offsets(each, 90)[1] for each in partitions}
    consumer.assign(partitions)
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)

    def read_all() -> bool:
        for message in consumer.consume(10_000, 0.2):
            assert message.error() is None
            found[message.partition()].append((message.offset(), message.value()))
        return all(len(found[index]) >= ends[index] for index in ends)

    try:
        wait_until(
            read_all,
            what="the end of every partition",
            timeout_seconds=90,
        )
    finally:
        consumer.close()
    return found


def test_nothing_acknowledged_is_missing_after_kill_9(own_broker: BrokerProcess) -> None:
    own_broker.settings["log.flush.interval.messages"] = "1"  # group commit
    own_broker.start()
    admin = AdminClient({"bootstrap.servers": own_broker.address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(90)

    with load(own_broker.address) as running:
        for _ in range(KILLS):
            before = Counter(running.produced)
            wait_until(
                lambda before=before: running.all_went_on_since(before) or bool(running.failed),
                what="some load",
                timeout_seconds=90,
            )
            own_broker.kill()
            own_broker.start()
    assert not running.failed

    found = stored(own_broker.address)
    for records in found.values():
        assert [offset for offset, _ in records] == list(range(len(records)))
    there = {
        (index, offset): value for index, records in found.items() for offset, value in records
    }
    assert running.acknowledged.items() <= there.items()
    values = list(there.values())
    assert len(values) == len(set(values))  # idempotent: nothing twice, whatever was sent again


def test_a_broker_killed_again_and_again_loses_nothing(own_broker: BrokerProcess) -> None:
    own_broker.start()
    producer = Producer({"bootstrap.servers": own_broker.address})
    for number in range(1000):
        producer.produce(TOPIC, b"%d" % number, partition=0)
    assert producer.flush(90) == 0
    for _ in range(3):
        own_broker.kill()
        own_broker.start()
    consumer = Consumer({"bootstrap.servers": own_broker.address, "group.id": "unused"})
    assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), 90) == (0, 1000)
    consumer.close()
