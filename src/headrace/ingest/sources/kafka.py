"""The kafka source: records of topics as events."""

from collections.abc import Iterable
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.audit.tally import Tally
from headrace.client.error import ClientError
from headrace.ingest.error import IngestError, ProtocolError
from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.format.avro_event import decode_event
from headrace.ingest.kafka.auditor import AUDIT_SETTINGS, Auditor
from headrace.ingest.kafka.client_config import client_settings, consumer_config
from headrace.ingest.settings import Settings, flag, number, prefix, text
from headrace.ingest.source import PollableSource

_log = structlog.get_logger(__name__)


class KafkaSource(PollableSource):
    """Reads topics as a member of a consumer group. It commits offsets when the events are in the
    channel, so that a crash repeats at most one batch of each partition.

    A fetch may hold records of one partition and the error of another, whose topic was deleted or
    may not be read any more. The records are delivered before the error is raised, because the
    consumer's position is behind them already.
    """

    SETTINGS = (
        text("kafka.bootstrap.servers", "The bootstrap brokers.", required=True),
        text("kafka.topics", "The topics, separated by commas."),
        text("kafka.topics.regex", "Or a regular expression for their names."),
        text("kafka.consumer.group.id", "The consumer group.", "flume"),
        prefix("kafka.consumer", "Settings of the consumer, with Kafka's names."),
        number("batchSize", "Most events in one transaction.", 1000, minimum=1),
        number("batchDurationMillis", "Longest wait for a full batch.", 1000, minimum=1),
        flag("useFlumeEventFormat", "Records are Avro events, with headers.", False),
        flag("setTopicHeader", "A header with the topic.", True),
        text("topicHeader", "Its name.", "topic"),
        text("timestampHeader", "The header for the record's time."),
        prefix("header", "Event headers: header.NAME = name of the record's header."),
        number("backoffSleepIncrement", "Ignored.", 1000),
        number("maxBackoffSleep", "Ignored.", 5000),
        flag("migrateZookeeperOffsets", "Ignored.", True),
        *AUDIT_SETTINGS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        topics = (settings.optional("kafka.topics") or "").replace(",", " ").split()
        regex = settings.optional("kafka.topics.regex")
        if not topics and regex is None:
            raise settings.wrong("kafka.topics", "kafka.topics is missing: name the topics to read")
        # librdkafka reads a name that starts with ^ as a regular expression.
        self._topics = topics if regex is None else [regex if regex[0] == "^" else f"^{regex}"]
        self._config = consumer_config(settings)
        self._batch = settings.number("batchSize")
        self._seconds = settings.number("batchDurationMillis") / 1000
        self._flume = settings.flag("useFlumeEventFormat")
        self._topic_header = (
            settings.text("topicHeader") if settings.flag("setTopicHeader") else None
        )
        self._time_header = settings.optional("timestampHeader")
        self._record_headers = settings.below("header")
        self._consumer: Any = None
        self._client = client_settings(settings, "consumer")
        self._auditor: Auditor | None = None
        self._tally: Tally | None = None

    def start(self) -> None:
        self._auditor = Auditor(self.settings, self._client, self.agent, begins=True)
        try:
            self._tally = self._auditor.start()
        except ClientError as error:
            raise IngestError(f"cannot read from Kafka: {error}") from error
        self._consumer = Consumer(self._config)
        self._consumer.subscribe(self._topics)

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        if self._auditor is not None:
            self._auditor.stop()

    def poll(self) -> bool:
        try:
            messages = self._consumer.consume(self._batch, min(self._seconds, 0.5))
        except KafkaException as error:
            raise IngestError(f"cannot read from Kafka: {error.args[0]}") from error
        records = [each for each in messages if each.error() is None]
        problem = next((each.error() for each in messages if _is_problem(each)), None)
        if records:
            self._hand_over(records)
        if problem is not None:
            raise IngestError(f"cannot read from Kafka: {problem}")
        return bool(records)

    def _hand_over(self, records: list[Any]) -> None:
        """Deliver records and commit their offsets, or go back to the first ones."""
        try:
            events = [self._event(each) for each in records]
            self.deliver(EventBatch([body for _, body in events], [own for own, _ in events]))
        except Exception:
            self._rewind(records)
            raise
        self._commit(records)
        if self._tally is not None:
            for record in records:
                self._tally.count(record.topic(), record.timestamp()[1])

    def _event(self, message: Any) -> tuple[Headers, bytes]:
        body = message.value() or b""
        headers: Headers = {}
        if self._flume:
            try:
                headers, body = decode_event(body)
            except ProtocolError:
                self.counters.add("EventReadFail")  # not written by Flume: the value is the body
        if self._topic_header is not None:
            headers[self._topic_header] = message.topic()
        headers["partition"] = str(message.partition())
        headers["offset"] = str(message.offset())
        if self._time_header is not None:
            headers[self._time_header] = str(message.timestamp()[1])
        if message.key() is not None:
            headers["key"] = message.key().decode("utf-8", "replace")
        if self._record_headers:
            of_record = dict(message.headers() or ())
            for name, record_name in self._record_headers.items():
                if of_record.get(record_name) is not None:
                    headers[name] = of_record[record_name].decode("utf-8", "replace")
        return headers, body

    def _rewind(self, messages: Iterable[Any]) -> None:
        """Seek back, so that records that were not delivered are read again."""
        first: dict[tuple[str, int], int] = {}
        for message in messages:
            first.setdefault((message.topic(), message.partition()), message.offset())
        for (topic, partition), offset in first.items():
            try:
                self._consumer.seek(TopicPartition(topic, partition, offset))
            except KafkaException as error:
                # Another member owns the partition now, and reads on at the committed offset.
                _log.warning(
                    "partition_not_rewound",
                    source=self.name,
                    topic=topic,
                    partition=partition,
                    reason=str(error.args[0]),
                )

    def _commit(self, messages: Iterable[Any]) -> None:
        last: dict[tuple[str, int], int] = {}
        for message in messages:
            last[message.topic(), message.partition()] = message.offset()
        offsets = [TopicPartition(*key, offset + 1) for key, offset in last.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # The group has rebalanced: the new owner of the partitions repeats these events.
            raise IngestError(f"offsets were not committed: {error.args[0]}") from error


def _is_problem(message: Any) -> bool:
    """Return whether a message is an error that a retry of the client does not solve."""
    error = message.error()
    return error is not None and (error.fatal() or not error.retriable())
