"""Clients that write and read while a cluster is broken, and record every answer."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from testkit.fault.history import History, LogPosition

# Look for another leader as often as tests need it.
_IMPATIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 50,
    # A broker that sleeps answers nothing: a client would wait half a minute for it.
    "socket.timeout.ms": 5000,
    "log_level": 0,
}
_GIVE_UP_MS = 60_000
_HANGS_SECONDS = 3 * _GIVE_UP_MS / 1000
_TRY_SECONDS = 10


class Workload:
    """An idempotent producer with acks=all, a transactional one that aborts now and then, a reader
    and a consumer group, each in a thread, on one topic.

    Attributes:
        replaced: how many transactional producers were, see `_end`.

    Example:
        workload = Workload("127.0.0.1:9092", "orders", partitions=3)
        with workload.running():
            cluster.broker(1).kill()
        assert workload.history.check(workload.read_all()) == []
    """

    def __init__(self, servers: str, topic: str, partitions: int, *, rate: int = 500) -> None:
        self.history = History()
        self.failures: list[str] = []
        self.has_lost_a_client = False
        self.sent = 0
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._pause_seconds = 1 / rate
        self.transactions = 0
        self.replaced = 0
        self.acknowledged = 0
        # By partition, in the order in which they were sent.
        self._sent_to = [0] * partitions
        self._acknowledged_by = [0] * partitions
        self._stop = Event()
        self._writers_done = Event()

    def __str__(self) -> str:
        counts = zip(self._sent_to, self._acknowledged_by, strict=True)
        by_partition = ", ".join(
            f"partition {index}: {sent} sent, {acknowledged} acknowledged"
            for index, (sent, acknowledged) in enumerate(counts)
        )
        return f"{by_partition}; {self.transactions} transactions"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write and read meanwhile; everything that was sent is answered on return."""
        threads = [
            Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True)
            for work in (self._write, self._transact, self._read, self._work_in_group)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads[:-1]:
                self._end_of(thread)
            self._writers_done.set()
            self._end_of(threads[-1])

    def _end_of(self, thread: Thread) -> None:
        """Wait until a client has ended; one that hangs must not keep the rest from its check."""
        thread.join(_HANGS_SECONDS)
        if thread.is_alive():
            self.failures.append(f"{thread.name}: it hangs in its client")
            self.has_lost_a_client = True

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a client that fails is a finding, too
            self.failures.append(f"{work.__name__}: {error!r}")
            self.has_lost_a_client = True

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "acks": "all",
                "enable.idempotence": True,
                "request.timeout.ms": 4000,
                "message.timeout.ms": _GIVE_UP_MS,
                # With less, librdkafka polls without a pause while a broker is slow to answer.
                "linger.ms": 10,
                **_IMPATIENT,
            }
        )
        while not self._stop.is_set():
            value = f"v{self.sent}"
            partition = self.sent % self._partitions
            producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            self.sent += 1
            self._sent_to[partition] += 1
            producer.poll(self._pause_seconds)
        left = producer.flush(_GIVE_UP_MS / 1000)
        if left:
            self.failures.append(f"{left} records were never answered")

    def _transact(self) -> None:
        """Run transactions over all partitions; each fifth is aborted."""
        producer = self._transactional_producer()
        while not self._stop.is_set():
            self.transactions += 1
            delivered: list[tuple[str, int, int | None]] = []
            producer.begin_transaction()
            values = [f"t{self.transactions}-{each}" for each in range(self._partitions)]
            for partition, value in enumerate(values):
                producer.produce(
                    self._topic, value, partition=partition, on_delivery=partial(_note, delivered)
                )
            if self.transactions % 5 == 0:
                producer.flush(_TRY_SECONDS)
                producer = self._end(producer, values, delivered)
            elif self._commit(producer, values):
                for value, partition, offset in delivered:
                    self.history.acknowledge(value, partition, offset)
            self._stop.wait(20 * self._pause_seconds)

    def _transactional_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": f"workload-{self._topic}",
                "transaction.timeout.ms": _GIVE_UP_MS,
                "request.timeout.ms": 4000,
                **_IMPATIENT,
            }
        )
        _patiently(lambda: producer.init_transactions(_TRY_SECONDS))
        return producer

    def _end(self, producer: Producer, values: list[str], delivered: Sequence[object]) -> Producer:
        """Abort a transaction, and return the producer to go on with.

        librdkafka asks for the abort also when no coordinator ever heard of the transaction,
        because the one it asked was asleep (its issue 4849). That is an invalid state for Apache
        Kafka, too; then librdkafka gives up, and an application makes a new producer. When a record
        was delivered, a coordinator did know of the transaction, and must not have forgotten it.
        """
        try:
            self._abort(producer, values)
        except KafkaException as error:
            if delivered or error.args[0].name() != "INVALID_TXN_STATE":
                raise
            producer = self._transactional_producer()
            self.history.abort(values)
            self.replaced += 1
        return producer

    def _commit(self, producer: Producer, values: list[str]) -> bool:
        """Commit, and return whether that was done; abort a transaction that cannot go on."""
        try:
            _patiently(lambda: producer.commit_transaction(_TRY_SECONDS))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(producer, values)
            return False
        return True

    def _abort(self, producer: Producer, values: list[str]) -> None:
        _patiently(lambda: producer.abort_transaction(_TRY_SECONDS))
        self.history.abort(values)

    def _work_in_group(self) -> None:
        """Run a member of a group that goes on to the end of the log when the others have ended."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": f"workers-{self._topic}",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                **_IMPATIENT,
            }
        )
        try:
            consumer.subscribe([self._topic])
            idle, deadline = False, float("inf")
            while not (idle and self._writers_done.is_set() and self._caught_up(consumer)):
                if self._writers_done.is_set():
                    deadline = min(deadline, time.monotonic() + _GIVE_UP_MS / 1000)
                if time.monotonic() > deadline:
                    raise TimeoutError("the group has not reached the end of the log")
                message = consumer.poll(0.2)
                idle = message is None
                if message is not None and message.error() is None:
                    value, partition, offset = _contents(message)
                    assert offset is not None
                    self.history.deliver("workers", value, partition, offset)
        finally:
            consumer.close()

    def _caught_up(self, consumer: Consumer) -> bool:
        """Return whether every partition is this member's, and read to its end."""
        try:
            places = consumer.position(consumer.assignment())
            if len(places) < self._partitions:
                return False
            ends = [consumer.get_watermark_offsets(each, 5)[1] for each in places]
        except KafkaException:
            return False
        return all(each.offset >= end for each, end in zip(places, ends, strict=True))

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, partition, offset = _contents(message)
        self.history.acknowledge(value, partition, offset)
        self.acknowledged += 1
        self._acknowledged_by[partition] += 1

    def goes_on(self, records: int) -> Callable[[], bool]:
        """Return a condition: each partition has acknowledged so many records sent from now on."""
        wanted = [sent + records for sent in self._sent_to]
        return lambda: all(
            have >= want for have, want in zip(self._acknowledged_by, wanted, strict=True)
        )

    def _read(self) -> None:
        for value, place in self._records("reader", self._stop):
            self.history.poll("reader", value, place.partition, place.offset)

    def read_all(self) -> list[tuple[str, LogPosition]]:
        """Return the whole log, read once more from its start to its end."""
        return list(self._records("last", None))

    def _records(self, name: str, stop: Event | None) -> Iterator[tuple[str, LogPosition]]:
        """Read from the start until `stop` is set, or without `stop` to the end of the log."""
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
                error, partition = message.error(), message.partition()
                if error is not None:
                    if error.name() == "_PARTITION_EOF" and partition is not None:
                        ends.add(partition)
                    elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                        raise KafkaException(error)
                    continue
                value, partition, offset = _contents(message)
                assert offset is not None
                yield value, LogPosition(partition, offset)
        finally:
            consumer.close()


def _contents(message: Message) -> tuple[str, int, int | None]:
    """Return value, partition and offset of a message.

    A delivered one may have no offset: librdkafka takes a batch as written when a later one is
    answered, also when the answer to the batch itself was lost with a connection.
    """
    value, partition = message.value(), message.partition()
    assert value is not None
    assert partition is not None
    return value.decode(), partition, message.offset()


def _note(delivered: list[tuple[str, int, int | None]], error: object, message: Message) -> None:
    if error is None:
        delivered.append(_contents(message))


def _patiently(step: Callable[[], None]) -> None:
    """Run a step of a transaction, and retry while the client says that it may be retried."""
    deadline = time.monotonic() + _GIVE_UP_MS / 1000
    while True:
        try:
            step()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return
