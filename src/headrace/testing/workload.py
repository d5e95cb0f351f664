"""Clients that write and read while a cluster is broken, and write down what they were told."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from headrace.testing.history import History, Place

# Look for another leader as often as tests need it.
_IMPATIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}
_GIVE_UP_MS = 60_000


class Workload:
    """An idempotent producer with acks=all and a reader, in threads, on one topic.

    Example:
        workload = Workload("127.0.0.1:9092", "orders", partitions=3)
        with workload.running():
            cluster.broker(1).kill()
        assert workload.history.check(workload.read_all()) == []
    """

    def __init__(self, servers: str, topic: str, partitions: int, *, rate: int = 500) -> None:
        self.history = History()
        self.failures: list[str] = []
        self.sent = 0
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._pause_seconds = 1 / rate
        self._stop = Event()

    @property
    def acknowledged(self) -> int:
        return len(self.history.acknowledged)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write and read meanwhile; everything that was sent is answered on return."""
        threads = [
            Thread(target=self._write, name="writer"),
            Thread(target=self._read, name="reader"),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": _GIVE_UP_MS,
                "linger.ms": 2,
                **_IMPATIENT,
            }
        )
        while not self._stop.is_set():
            value = f"v{self.sent}"
            producer.produce(
                self._topic,
                value,
                partition=self.sent % self._partitions,
                on_delivery=self._delivered,
            )
            self.sent += 1
            producer.poll(self._pause_seconds)
        left = producer.flush(_GIVE_UP_MS / 1000)
        if left:
            self.failures.append(f"{left} records were never answered")

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset is not None
        self.history.acknowledge(value.decode(), partition, offset)

    def _read(self) -> None:
        for value, place in self._records("reader", self._stop):
            self.history.poll("reader", value, place.partition, place.offset)

    def read_all(self) -> list[tuple[str, Place]]:
        """The whole log, read once more from its start to its end."""
        return list(self._records("last", None))

    def _records(self, name: str, stop: Event | None) -> Iterator[tuple[str, Place]]:
        """From the start: until it is told to stop, or without `stop` to the end of the log."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": f"{name}-{time.monotonic_ns()}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                **_IMPATIENT,
            }
        )
        try:
            ends: set[int] = set()
            partitions = range(self._partitions)
            consumer.assign([TopicPartition(self._topic, each, 0) for each in partitions])
            while len(ends) < self._partitions if stop is None else not stop.is_set():
                message = consumer.poll(0.2)
                if message is None:
                    continue
                error, value = message.error(), message.value()
                partition, offset = message.partition(), message.offset()
                if error is not None:
                    if error.name() == "_PARTITION_EOF" and partition is not None:
                        ends.add(partition)
                    elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                        raise KafkaException(error)
                    continue
                assert value is not None
                assert partition is not None
                assert offset is not None
                yield value.decode(), Place(partition, offset)
        finally:
            consumer.close()
