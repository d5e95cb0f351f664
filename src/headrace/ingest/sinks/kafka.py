"""The kafka sink: events in topics."""

from contextlib import ExitStack

import pyarrow as pa
import structlog

from headrace.audit.reconciliation import SOURCE_TIER
from headrace.client.error import ClientError
from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.kafka.auditor import AUDIT_SETTINGS, Auditor
from headrace.ingest.kafka.client_config import client_settings
from headrace.ingest.kafka.producer_setting import PRODUCER_SETTINGS, writer_options
from headrace.ingest.kafka.refused_topic import RefusedTopics
from headrace.ingest.kafka.registry_framing import FRAMING_SETTINGS, registry_framing
from headrace.ingest.kafka.small_batch import Records, small_records
from headrace.ingest.kafka.topic_columns import TopicColumns
from headrace.ingest.kafka.topic_writer import TopicLedger, TopicWriter
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.ingest.sink import Sink, Status
from headrace.ingest.transaction import Transaction

_log = structlog.get_logger(__name__)
# While brokers write a batch, the sink sends the next ones, up to so many batches or bytes.
_MOST_AHEAD = 8
_AHEAD_BYTES = 8 << 20


class KafkaSink(Sink):
    """Writes batches as columns. Events leave the channel when every in-sync replica has them.

    Up to eight batches of a channel in memory are on their way at once. When one of them fails, all
    are sent again, and from then on one at a time, then two and so on: a batch that is refused for
    good does not repeat the others without end. From a durable channel there is one at a time,
    because after kill -9 what was on its way is sent again.

    The header `key` is the key of the record. The header `topic` chooses another topic, also for
    those who send events to a network source: `allowTopicOverride` turns that off. With
    `kafka.transactional.id` each batch is a transaction, which also stores the positions of a
    source with `exactlyOnce`. With `schema.registry.url` values are Avro in the framing of the
    schema registry; with `schema.converter` keys and values bring Connect's schemas along, which
    are registered.
    """

    BATCH_SETTING = "flumeBatchSize"
    COUNTERS = (*Sink.COUNTERS, "TopicHeaderRefusedCount")
    SETTINGS = (
        *PRODUCER_SETTINGS,
        text("kafka.topic", "The topic.", "default-flume-topic", other_names=("topic",)),
        number(
            "flumeBatchSize",
            "Events per batch.",
            100,
            minimum=1,
            other_names=("batchSize", "kafka.flumeBatchSize"),
        ),
        flag("useFlumeEventFormat", "Write Avro events, with their headers.", False),
        flag("allowTopicOverride", "Let a header choose the topic.", True),
        text("topicHeader", "That header.", "topic"),
        text("timestampHeader", "The header with the record's time."),
        prefix("header", "Record headers: header.NAME = name of the event's header."),
        flag("kafka.allHeaders", "Write all headers of an event as record headers.", False),
        *FRAMING_SETTINGS,
        *AUDIT_SETTINGS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        override = settings.flag("allowTopicOverride")
        partition = settings.optional("defaultPartitionId")
        flume_format = settings.flag("useFlumeEventFormat")
        self._framing = registry_framing(settings, flume_format=flume_format)
        self._refused = RefusedTopics()
        self._form = TopicColumns(
            topic=settings.text("kafka.topic"),
            topic_header=settings.text("topicHeader") if override else None,
            positions_topic=settings.text("kafka.positions.topic"),
            refused=self._refused,
            on_header_refused=self._count_refused_header,
            partition_header=settings.optional("partitionIdHeader"),
            default_partition=None if partition is None else int(partition),
            timestamp_header=settings.optional("timestampHeader"),
            record_headers=settings.below("header"),
            all_headers=settings.flag("kafka.allHeaders"),
            flume_format=flume_format,
            framing=self._framing,
        )
        client = client_settings(settings, "producer")
        self._auditor = Auditor(settings, client, SOURCE_TIER)
        self._writer = TopicWriter(client, writer_options(settings))
        self._ahead = 1
        self._reported = False

    def _count_refused_header(self, name: str, count: int) -> None:
        """Count events whose header names what is no topic; they go to the sink's own."""
        self.counters.add("TopicHeaderRefusedCount", count)
        if not self._reported:
            self._reported = True
            topic = self.settings.text("kafka.topic")
            _log.warning("topic_header_refused", sink=self.name, named=name[:100], topic=topic)

    @property
    def ledger(self) -> TopicLedger | None:
        """The ledger for an exactly-once source; None without transactions."""
        return self._writer.ledger

    def start(self) -> None:
        try:
            self._writer.audit = self._auditor.start()
        except ClientError as error:
            raise DeliveryFailed(f"cannot look for the audit topic: {error}") from error
        self._writer.trusts_names = self.trusts_headers
        try:
            self._writer.open()
        except DeliveryFailed:
            self._auditor.stop()
            raise
        self.counters.add("ConnectionCreatedCount")

    def stop(self) -> None:
        self._writer.close()
        self._auditor.stop()
        if self._framing is not None:
            self._framing.close()
        self.counters.add("ConnectionClosedCount")

    def deliver(self, batch: EventBatch) -> None:
        self._writer.write(self._tables(batch))

    def _tables(self, batch: EventBatch) -> list[tuple[str, pa.Table]]:
        refused: set[str] = set()
        tables = self._form.tables(batch)
        while self._refuses({topic for topic, _ in tables}, refused):
            tables = self._form.tables(batch)
        return tables

    def _records(self, batch: EventBatch) -> Records | None:
        refused: set[str] = set()
        records = small_records(self._form, batch)
        while records is not None and self._refuses(set(records), refused):
            records = small_records(self._form, batch)
        return records

    def _refuses(self, topics: set[str], refused: set[str]) -> bool:
        """Return whether the cluster refuses some of the topics, which are then no longer used.

        Args:
            refused: what it refused of this batch before. All of it is remembered again, so that no
                name of it comes back: each round refuses at least one more, or is the last.
        """
        more = self._writer.refused_topics(topics)
        if more:
            refused |= more
            self._refused.add(refused)
        return bool(more)

    def process(self) -> Status:
        limit = min(self.batch_size, self.channel.transaction_capacity)
        if self.ledger is None:
            return self._process_ahead(limit)
        with self.channel.begin() as transaction:
            batches = _take(transaction, limit)
            count = sum(map(len, batches))
            if not batches:
                self.counters.add("BatchEmptyCount")
                return Status.BACKOFF
            self.counters.add("EventDrainAttemptCount", count)
            self._deliver_once(batches)
        self.counters.add("BatchCompleteCount" if count >= limit else "BatchUnderflowCount")
        self.counters.add("EventDrainSuccessCount", count)
        return Status.READY

    def _process_ahead(self, limit: int) -> Status:
        """Send what the channel has, batch after batch, and wait once for all of them."""
        counts: list[int] = []
        try:
            with ExitStack() as transactions:  # ends them in reverse: a rollback keeps the order
                size_bytes = 0
                while len(counts) < self._ahead and size_bytes < _AHEAD_BYTES:
                    transaction = transactions.enter_context(self.channel.begin())
                    batch = transaction.take_ready(limit) if counts else transaction.take(limit)
                    if not len(batch):
                        break
                    try:
                        tables = self._tables(batch)
                    except DeliveryFailed:
                        if not counts:
                            raise
                        # Those before it are on their way, and must not be sent again for it.
                        transaction.rollback()
                        break
                    self.counters.add("EventDrainAttemptCount", len(batch))
                    counts.append(len(batch))
                    size_bytes += batch.body_bytes
                    self._writer.send(tables)
                if counts:
                    self._writer.flush()
        except Exception:
            self._ahead = 1
            self.counters.add("EventWriteFail", 1 if counts else 0)
            raise
        if not counts:
            self.counters.add("BatchEmptyCount")
            self.idle()
            return Status.BACKOFF
        self._ahead = 1 if self.channel.DURABLE else min(_MOST_AHEAD, 2 * self._ahead)
        for count in counts:
            self.counters.add("BatchCompleteCount" if count >= limit else "BatchUnderflowCount")
            self.counters.add("EventDrainSuccessCount", count)
        return Status.READY

    def _deliver_once(self, batches: list[EventBatch]) -> None:
        """Write the batches that are not in the log already, in one transaction."""
        self._writer.open()
        unwritten = [each for each in batches if not self._writer.is_settled(each.marks)]
        if not unwritten:
            return
        marks = [each.marks for each in unwritten if each.marks is not None]
        joined = EventBatch.join([each.with_marks(None) for each in unwritten])
        try:
            records = self._records(joined) if self._writer.takes_records else None
            if records is None:
                self._writer.write(self._tables(joined), marks)
            else:
                self._writer.write_records(records, marks)
        except DeliveryFailed:
            self.counters.add("EventWriteFail")
            raise


def _take(transaction: Transaction, limit: int) -> list[EventBatch]:
    """Take up to `limit` events. Batches with marks stay as they were put."""
    batches: list[EventBatch] = []
    count = 0
    while count < limit:
        batch = transaction.take(limit - count)
        if not len(batch) and batch.marks is None:
            break
        batches.append(batch)
        count += len(batch)
    return batches
