"""A topic as a channel: durable, replicated, and readable by any Kafka client.

Theory of operation. A put writes records to a topic and returns when every in-sync replica has
them. The takers of the channel are one member of a consumer group: a commit of takes commits the
offsets. Events that were taken and not committed are read again, by this agent or by another one of
the group. Events that were rolled back are kept in memory, and the next take returns them first.
"""

import time
from collections import deque
from contextlib import suppress
from threading import Condition, Lock
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.ingest.channels.queue import QueueChannel, Taken
from headrace.ingest.channels.topic_cursor import PartitionKey, TakenRange, TopicCursor
from headrace.ingest.error import ChannelError, DeliveryFailed, ProtocolError
from headrace.ingest.event import EMPTY, EventBatch, Headers
from headrace.ingest.format.avro_event import decode_event
from headrace.ingest.kafka.client_config import client_settings, consumer_config
from headrace.ingest.kafka.producer_setting import PRODUCER_SETTINGS, writer_options
from headrace.ingest.kafka.topic_columns import TopicColumns
from headrace.ingest.kafka.topic_writer import TopicLedger, TopicWriter
from headrace.ingest.settings import Settings, flag, number, prefix, text

_log = structlog.get_logger(__name__)
_JOIN_SECONDS = 30.0


class KafkaChannel(QueueChannel[TakenRange]):
    """A channel in a topic; the theory of operation is above.

    With `parseAsFlumeEvent` records are Flume's Avro events, with headers. Without it records are
    bodies, and any producer can write to the channel.

    Threads: `_writing` guards the writer, `_reading` the consumer, `_changed` the bookkeeping.
    """

    DURABLE = True
    SETTINGS = (
        *PRODUCER_SETTINGS,
        text("kafka.topic", "The topic.", "flume-channel"),
        text("kafka.consumer.group.id", "The consumer group of the takers.", "flume"),
        prefix("kafka.consumer", "Settings of the consumer, with Kafka's names."),
        flag("parseAsFlumeEvent", "Records are Avro events, with headers.", True),
        number("pollTimeout", "Milliseconds to wait for an event.", 500, minimum=1),
        number("transactionCapacity", "How many events fit in one transaction.", 10_000, minimum=1),
        flag("migrateZookeeperOffsets", "Ignored.", True),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._topic = settings.text("kafka.topic")
        self._parse = settings.flag("parseAsFlumeEvent")
        partition = settings.optional("defaultPartitionId")
        self._form = TopicColumns(
            topic=self._topic,
            partition_header=settings.optional("partitionIdHeader"),
            default_partition=None if partition is None else int(partition),
            flume_format=self._parse,
        )
        self._writer = TopicWriter(client_settings(settings, "producer"), writer_options(settings))
        self._config: dict[str, Any] = {
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **consumer_config(settings),
        }
        self._poll_seconds = settings.number("pollTimeout") / 1000
        self._transaction_capacity = settings.number("transactionCapacity")
        self._consumer: Any = None
        self._early: list[Any] = []
        self._cursor = TopicCursor()
        self._returned: deque[Taken[TakenRange]] = deque()
        self._out_count = 0
        self._writing = Lock()
        self._reading = Lock()
        self._changed = Condition()
        self._interrupted = False

    @property
    def ledger(self) -> TopicLedger | None:
        """The ledger for an exactly-once source; None without transactions."""
        return self._writer.ledger

    @property
    def size(self) -> int:
        """Events that are taken or rolled back. Those that wait in the topic are the group's
        lag."""
        return self._out_count

    @property
    def capacity(self) -> int:
        """Only the topic's retention limits it."""
        return 2**31 - 1

    @property
    def transaction_capacity(self) -> int:
        return self._transaction_capacity

    def start(self) -> None:
        self._interrupted = False

    def stop(self) -> None:
        with self._writing:
            self._writer.close()
        with self._reading:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()
        with self._changed:
            self._cursor = TopicCursor()
            self._returned.clear()
            self._out_count = 0

    def interrupt(self) -> None:
        self._interrupted = True

    # -- putting -------------------------------------------------------------------------------

    def add(self, batches: list[EventBatch]) -> None:
        count = sum(map(len, batches))
        self.counters.add("EventPutAttemptCount", count)
        marks = [each.marks for each in batches if each.marks is not None]
        joined = EventBatch.join([each.with_marks(None) for each in batches])
        with self._writing:
            try:
                self._writer.write(self._form.tables(joined), marks)
            except DeliveryFailed as error:
                raise ChannelError(f"channel {self.name}: {error}") from error
        self.counters.add("EventPutSuccessCount", count)

    # -- taking --------------------------------------------------------------------------------

    def remove(self, limit: int, wait: bool) -> Taken[TakenRange]:
        with self._changed:
            if self._returned:
                return self._take_returned(limit)
        with self._reading:
            if self._consumer is None:
                self._join()
            seconds = self._poll_seconds if wait and not self._interrupted else 0.0
            messages = self._consume(limit, seconds)
            taken = self._taken(messages)
            with self._changed:
                self._cursor.taken(taken.positions)
                self._out_count += len(taken.batch)
        return taken

    def _take_returned(self, limit: int) -> Taken[TakenRange]:
        """Return the oldest events that were rolled back, as one batch: a range of offsets cannot
        be split where offsets have no record."""
        taken = self._returned.popleft()
        if len(taken.batch) > limit and len(taken.positions) == 1:
            (offsets,) = taken.positions
            if offsets.end - offsets.first == len(taken.batch):
                middle = offsets.first + limit
                rest = Taken(
                    [offsets._replace(first=middle)], taken.batch.cut(limit, len(taken.batch))
                )
                taken = Taken([offsets._replace(end=middle)], taken.batch.cut(0, limit))
                self._cursor.split(offsets, [*taken.positions, *rest.positions])
                self._returned.appendleft(rest)
        return taken

    def _join(self) -> None:
        """Join the group, and wait for an assignment, up to `_JOIN_SECONDS`."""
        consumer = Consumer(self._config)
        joined: list[Any] = []
        consumer.subscribe(
            [self._topic],
            on_assign=lambda _, partitions: joined.append(partitions),
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        self._consumer = consumer
        self._early = []
        deadline = time.monotonic() + _JOIN_SECONDS
        while not joined and not self._interrupted and time.monotonic() < deadline:
            self._early += consumer.consume(1, 0.1)

    def _consume(self, limit: int, seconds: float) -> list[Any]:
        messages, self._early = self._early[:limit], self._early[limit:]
        try:
            if len(messages) < limit:
                wait_seconds = 0.0 if messages else seconds
                messages += self._consumer.consume(limit - len(messages), wait_seconds)
        except KafkaException as error:
            raise ChannelError(f"channel {self.name} cannot read: {error.args[0]}") from error
        good = []
        for message in messages:
            problem = message.error()
            if problem is None:
                good.append(message)
            elif problem.fatal() or not problem.retriable():
                _log.warning("channel_read_error", channel=self.name, reason=str(problem))
        return good

    def _taken(self, messages: list[Any]) -> Taken[TakenRange]:
        if not messages:
            return Taken([], EMPTY)
        ranges: dict[PartitionKey, TakenRange] = {}
        headers: list[Headers] = []
        bodies: list[bytes] = []
        for message in messages:
            partition, offset = (message.topic(), message.partition()), message.offset()
            known = ranges.get(partition)
            first = offset if known is None else known.first
            ranges[partition] = TakenRange(partition, first, offset + 1)
            own, body = self._event(message)
            headers.append(own)
            bodies.append(body)
        return Taken(list(ranges.values()), EventBatch(bodies, headers))

    def _event(self, message: Any) -> tuple[Headers, bytes]:
        value = message.value() or b""
        headers: Headers = {}
        if self._parse:
            with suppress(ProtocolError):  # another producer wrote it: the value is the body
                headers, value = decode_event(value)
        if message.key() is not None:
            headers["key"] = message.key().decode("utf-8", "replace")
        return headers, value

    def put_back(self, taken: list[Taken[TakenRange]]) -> None:
        with self._changed:
            self._returned.extendleft(reversed([each for each in taken if each.positions]))

    def commit_takes(self, taken: list[Taken[TakenRange]]) -> None:
        """Commit takes: move the group's offsets up to the first event that is not delivered."""
        count = sum(len(each.batch) for each in taken)
        with self._changed:
            moved = self._cursor.done([each for some in taken for each in some.positions])
            self._out_count -= count
        if moved:
            with self._reading:
                self._commit(moved)
        self.counters.add("EventTakeSuccessCount", count)

    def _commit(self, moved: dict[PartitionKey, int]) -> None:
        if self._consumer is None:
            return
        offsets = [TopicPartition(*partition, offset) for partition, offset in moved.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # The events are delivered. After a restart they may be delivered again.
            _log.warning("offsets_not_committed", channel=self.name, reason=str(error.args[0]))

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        """Forget partitions that another member owns now; it reads the events that we did not
        commit."""
        lost = {(each.topic, each.partition) for each in partitions}
        with self._changed:
            self._cursor.forget(lost)
            gone = [
                each
                for each in self._returned
                if any(taken.partition in lost for taken in each.positions)
            ]
            self._returned = deque(each for each in self._returned if each not in gone)
            self._out_count -= sum(len(each.batch) for each in gone)
        self._early = [each for each in self._early if (each.topic(), each.partition()) not in lost]
