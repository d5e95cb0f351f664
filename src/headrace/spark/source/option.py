"""The options of the source: the Kafka connector's names and meanings, plus a few of our own.

One default differs: `kafka.isolation.level` is `read_committed`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.audit.record import DEFAULT_BUCKET_MS
from headrace.audit.record import TOPIC as AUDIT_TOPIC
from headrace.audit.target import AuditTarget
from headrace.model.error import ConfigError
from headrace.model.ids import topic_name_problem
from headrace.spark.kafka_option import client_texts
from headrace.spark.option_text import OptionText, wrong
from headrace.spark.source.offset_limit import OffsetLimit, check_batch, read_limit
from headrace.spark.source.schema import check_corrupt_column
from headrace.spark.source.topic_choice import TopicChoice, read_choice
from headrace.spark.value.format import KEY_FORMATS, VALUE_FORMATS, VALUE_MODES, ValueFormat
from headrace.spark.value.registry.option import REGISTRY_OPTIONS, read_registry_format

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SOURCE_OPTIONS: Final[Mapping[str, str]] = {
    "subscribe": "Topics to read, with commas between.",
    "subscribePattern": "A regular expression for the names of topics to read.",
    "assign": 'Partitions to read: `{"clicks":[0,1]}`.',
    "startingOffsets": "Where to begin: `earliest`, `latest` or "
    '`{"clicks":{"0":23,"1":-2}}`, where -2 is earliest and -1 latest. '
    "By default a stream begins at latest and a batch at earliest.",
    "startingOffsetsByTimestamp": "Times in milliseconds to begin at, by partition.",
    "startingTimestamp": "One time for all of them; it overrides the two above.",
    "startingOffsetsByTimestampStrategy": "Where no record is that young: `error` (default), or "
    "`latest` to begin at the end.",
    "endingOffsets": "Batch only. Where to end: `latest` (default) or JSON as above.",
    "endingOffsetsByTimestamp": "Batch only. Times in milliseconds to end at, by partition.",
    "endingTimestamp": "Batch only. One time for all of them.",
    "failOnDataLoss": "Whether to fail when records went away unread (default `true`).",
    "acceptNewTopicIds": "Stream only. Whether topics that were created again before the start "
    "have the same records at the same offsets, and are read on (default `false`).",
    "includeHeaders": "Whether there is a column `headers` (default `false`).",
    "maxOffsetsPerTrigger": "Stream only. How many offsets a micro-batch has at most.",
    "minOffsetsPerTrigger": "Stream only. How many must be there to start one.",
    "maxTriggerDelay": "Stream only. How long to wait for them (default `15m`).",
    "minPartitions": "How many tasks there are at least: big partitions are split by offset.",
    "maxRecordsPerPartition": "How many offsets a task has at most: partitions are split.",
    "commitProgress": "Stream only. Whether progress is committed to a group (default `true`).",
    "groupIdPrefix": "What that group's name begins with (default `spark-kafka-source`); "
    "`kafka.group.id` gives the whole name.",
    "kafkaConsumer.pollTimeoutMs": "How long a task tries to get what must be there "
    "(default `120000`).",
    "fetchOffset.numRetries": "How often to ask again for ends that went backwards (default `3`).",
    "fetchOffset.retryIntervalMs": "How long to wait before that (default `10`).",
    "valueFormat": "How values are decoded: `raw` (default), `string`, `json`, `csv`, `avro`, "
    "`protobuf`. With `schema.registry.url`, `avro`, `protobuf` and `json` values name their "
    "schema.",
    "valueSchema": "What json, csv or avro values hold: columns as in `page STRING, ms INT`, a "
    "Spark schema in JSON, or for avro an Avro schema.",
    "valueMode": "What becomes of keys and values that cannot be decoded: `PERMISSIVE` (default) "
    "makes them null, `DROPMALFORMED` leaves out their rows, `FAILFAST` fails.",
    "columnNameOfCorruptRecord": "With `PERMISSIVE`, the name of one more column, BINARY, that has "
    "the bytes of values that cannot be decoded.",
    "valueSubject": "Whose schema values are resolved to (default `TOPIC-value`).",
    "valueVersion": "Which version of it (default the latest when `load()` is called).",
    "valueMessage": "Which message of a Protobuf schema (default the first).",
    "keyFormat": "How keys are decoded: `raw` (default), `string`, and with "
    "`schema.registry.url` `avro`, `protobuf` or `json`.",
    "keySubject": "Whose schema keys are resolved to (default `TOPIC-key`).",
    "keyVersion": "Which version of it.",
    "keyMessage": "Which message of it.",
    "deadLetterTopic": "Where records go whose value cannot be decoded, instead of becoming rows.",
    **REGISTRY_OPTIONS,
    "audit.tier": "Count what is read for the audit, as this tier.",
    "audit.bucketMs": "Length of the audit's buckets (default `600000`).",
    "audit.topic": "Where the counts go (default `headrace.audit`).",
}
"""Every option of the source, as `docs/spark.md` lists them."""

RAW: Final = ValueFormat.of("raw", None, "PERMISSIVE")
_DEFAULT_PREFIX: Final = "spark-kafka-source"
_DEFAULT_DELAY_MS: Final = 15 * 60_000
_DEFAULT_POLL_MS: Final = 120_000
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
# `kafka.*` options that are read here and not by the client.
_OWN_KAFKA: Final = ("group.id", "isolation.level")
# Kafka's limit is 32 KiB; anything near it is a mistake.
_LONGEST_GROUP: Final = 255

_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "set the option startingOffsets to earliest or latest instead; it holds "
    "for a new query, and a restarted one goes on where it was",
    "key.deserializer": "keys are always bytes; use functions of DataFrames on the column key",
    "value.deserializer": "values are always bytes; use functions of DataFrames on the column "
    "value, or the option valueFormat",
    "enable.auto.commit": "Spark keeps the offsets; progress is committed by itself",
    "interceptor.classes": "interceptors are Java classes that may change what is read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one source, typed. They pickle: Spark sends them to tasks with the reader.

    Attributes:
        client: what `ClientSettings.of` takes.
        accept_new_topic_ids: whether topics that were created again while a stream was stopped are
            copies of those that it read.
        group: where a stream commits its progress, or None.
        dead_letter_topic: where records go whose value cannot be decoded.
        drop_malformed: whether rows are left out whose key or value cannot be decoded.
        corrupt_column: the name of a column for values that cannot be decoded.
        audit: the tier and the topic to which tasks report how many records they read.
    """

    choice: TopicChoice
    client: Mapping[str, str] = field(repr=False)
    read_committed: bool
    starting: OffsetLimit | None
    ending: OffsetLimit | None
    latest_if_none_match: bool
    fail_on_data_loss: bool
    accept_new_topic_ids: bool
    include_headers: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    min_partitions: int | None
    max_records: int | None
    group: str | None
    fetch_retries: int
    fetch_retry_ms: int
    value_format: ValueFormat
    key_format: ValueFormat = RAW
    dead_letter_topic: str | None = None
    drop_malformed: bool = False
    corrupt_column: str | None = None
    audit: AuditTarget | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Parse and check all options that batches and streams share.

        Raises:
            ConfigError: names the option and what to write instead.
        """
        texts = OptionText(options)
        texts.reject_unknown(SOURCE_OPTIONS)
        choice = read_choice(texts)
        kafka = texts.kafka()
        for name, instead in _REFUSED.items():
            if name in kafka:
                raise ConfigError(f"option kafka.{name} is not supported: {instead}")
        found = cls(
            choice=choice,
            client=_client(texts, kafka),
            read_committed=_read_committed(kafka),
            starting=read_limit(texts, "starting"),
            ending=read_limit(texts, "ending"),
            latest_if_none_match=texts.choice(
                "startingOffsetsByTimestampStrategy", "error", ("error", "latest")
            )
            == "latest",
            fail_on_data_loss=texts.boolean("failOnDataLoss", True),
            accept_new_topic_ids=texts.boolean("acceptNewTopicIds", False),
            include_headers=texts.boolean("includeHeaders", False),
            max_offsets=texts.number("maxOffsetsPerTrigger", 1, _LONG_MAX),
            min_offsets=texts.number("minOffsetsPerTrigger", 0, _LONG_MAX),
            max_delay_ms=texts.duration_ms("maxTriggerDelay", _DEFAULT_DELAY_MS),
            min_partitions=texts.number("minPartitions", 1, _INT_MAX),
            max_records=texts.number("maxRecordsPerPartition", 1, _LONG_MAX),
            group=_group(texts, kafka, choice),
            fetch_retries=_or(texts.number("fetchOffset.numRetries", 0, _INT_MAX), 3),
            fetch_retry_ms=_or(texts.number("fetchOffset.retryIntervalMs", 0, _INT_MAX), 10),
            value_format=_value_format(texts, choice),
            key_format=_key_format(texts, choice),
            dead_letter_topic=_dead_letter_topic(texts),
            drop_malformed=_value_mode(texts) == "DROPMALFORMED",
            corrupt_column=_corrupt_column(texts),
            audit=_audit(texts),
        )
        if found.max_offsets is not None and (found.min_offsets or 0) > found.max_offsets:
            raise ConfigError(
                f"minOffsetsPerTrigger ({found.min_offsets}) is higher than "
                f"maxOffsetsPerTrigger ({found.max_offsets})"
            )
        return found

    def pinned(self, schema: "StructType") -> "SourceOptions":
        """Return the options with the schemas that the columns of a read were made of.

        The latest version of a subject may change between `load()` and a task, and must not
        between two tasks.

        Raises:
            ConfigError: a subject has no schema.
            RegistryUnreachable: no registry answers.
        """
        from headrace.spark.source.schema import pinned_format

        return replace(
            self,
            value_format=pinned_format(self.value_format, schema, "value"),
            key_format=pinned_format(self.key_format, schema, "key"),
        )

    def check_batch(self) -> None:
        """Check the limits of a batch.

        Raises:
            ConfigError: a batch cannot have such limits.
        """
        check_batch(self.starting, self.ending)

    def check_stream(self) -> None:
        """Check the limits of a stream.

        Raises:
            ConfigError: an end is given, which a stream does not have.
        """
        if self.ending is not None:
            raise ConfigError(
                "endingOffsets, endingOffsetsByTimestamp and endingTimestamp are for batches: "
                "a stream does not end"
            )


def _client(texts: OptionText, kafka: Mapping[str, str]) -> dict[str, str]:
    poll_ms = _or(texts.number("kafkaConsumer.pollTimeoutMs", 1, _INT_MAX), _DEFAULT_POLL_MS)
    found = client_texts(kafka, _OWN_KAFKA)
    return {"default.api.timeout.ms": str(poll_ms), "client.id": "headrace-spark"} | found


def _read_committed(kafka: Mapping[str, str]) -> bool:
    """Return the isolation. Kafka's own default reads what was aborted: a query that counts the
    output of an exactly-once sink would count its failed batches too."""
    text = kafka.get("isolation.level", "read_committed").strip().lower()
    if text not in ("read_committed", "read_uncommitted"):
        raise ConfigError(
            f"option kafka.isolation.level cannot be {text!r}: "
            "write read_committed or read_uncommitted"
        )
    return text == "read_committed"


def _group(texts: OptionText, kafka: Mapping[str, str], choice: TopicChoice) -> str | None:
    """Return the group that progress is committed to. Its name must not change when the query
    starts again, and Spark does not pass the query's id to a source: so it is made of the
    topics."""
    if not texts.boolean("commitProgress", True):
        return None
    whole = kafka.get("group.id", "").strip()
    if whole:
        return whole
    prefix = texts.get("groupIdPrefix") or _DEFAULT_PREFIX
    return f"{prefix}-{choice.text}"[:_LONGEST_GROUP]


def _value_format(texts: OptionText, choice: TopicChoice) -> ValueFormat:
    name = texts.choice("valueFormat", "raw", VALUE_FORMATS)
    return ValueFormat.of(
        name,
        texts.get("valueSchema"),
        _value_mode(texts),
        read_registry_format(texts, "value", name, _one_topic(choice)),
    )


def _key_format(texts: OptionText, choice: TopicChoice) -> ValueFormat:
    name = texts.choice("keyFormat", "raw", KEY_FORMATS)
    registry = read_registry_format(texts, "key", name, _one_topic(choice))
    return ValueFormat.of(name, None, _value_mode(texts), registry)


def _value_mode(texts: OptionText) -> str:
    return texts.choice("valueMode", "PERMISSIVE", VALUE_MODES)


def _one_topic(choice: TopicChoice) -> str | None:
    """Return the topic of a read that has just one."""
    topics = {each.topic for each in choice.assigned or ()} or set(choice.topics or ())
    return topics.pop() if len(topics) == 1 else None


def _dead_letter_topic(texts: OptionText) -> str | None:
    topic = texts.get("deadLetterTopic")
    if topic is not None and (problem := topic_name_problem(topic)):
        raise wrong("deadLetterTopic", topic, problem)
    if topic is not None and texts.choice("valueFormat", "raw", VALUE_FORMATS) == "raw":
        raise ConfigError("option deadLetterTopic needs a valueFormat that decodes values")
    if topic is not None and _value_mode(texts) == "FAILFAST":
        raise ConfigError(
            "with valueMode FAILFAST no record reaches deadLetterTopic: leave out one of the two "
            "options"
        )
    return topic


def _corrupt_column(texts: OptionText) -> str | None:
    name = texts.get("columnNameOfCorruptRecord")
    if name is None:
        return None
    check_corrupt_column(name)
    if texts.choice("valueFormat", "raw", VALUE_FORMATS) == "raw":
        raise ConfigError(
            "option columnNameOfCorruptRecord needs a valueFormat that decodes values"
        )
    mode = _value_mode(texts)
    if mode != "PERMISSIVE" or "deadLetterTopic" in texts:
        other = "option deadLetterTopic" if mode == "PERMISSIVE" else f"valueMode {mode}"
        raise ConfigError(
            f"with {other} no row has a corrupt value: leave out the option "
            "columnNameOfCorruptRecord"
        )
    return name


def _audit(texts: OptionText) -> AuditTarget | None:
    bucket_ms = _or(texts.number("audit.bucketMs", 1, _LONG_MAX), DEFAULT_BUCKET_MS)
    tier = texts.get("audit.tier")
    return AuditTarget(tier, bucket_ms, texts.get("audit.topic") or AUDIT_TOPIC) if tier else None


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
