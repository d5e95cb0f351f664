"""The options of the sink: the Kafka connector's `topic` and `kafka.*`, and our own.

Rule 1: `kafka.*` settings of a producer that apply here are honoured; those that only tune Java's
producer are accepted and ignored, so that options can be copied as they are.
Rule 2: a setting that would write rows differently from what the user expects is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError
from headrace.model.ids import TOPIC_NAME_MAX_LENGTH, topic_name_problem
from headrace.serde.registry_client_settings import URL
from headrace.spark.kafka_option import client_texts
from headrace.spark.option_text import OptionText, wrong
from headrace.spark.value.registry.option import (
    REGISTRY_FORMATS,
    REGISTRY_OPTIONS,
    read_registry_format,
)

if TYPE_CHECKING:
    from headrace.spark.value.registry.encoder import RegistryEncoder

SINK_OPTIONS: Final = {
    "topic": "Where all rows go; without it the column topic says so, row by row.",
    "guarantee": "exactly-once (what a stream has) or at-least-once (what a batch write has).",
    "sinkIdPrefix": "What the names of the sink's transactional id, group and staging topic "
    "begin with: headrace-sink.",
    "replayMayDiffer": "Whether the last batch may come again with another number of records, "
    "which is logged then and not written: false.",
    "sinkId": "For a batch write: under which name its batchId is remembered.",
    "valueFormat": "avro, protobuf or json: the column value, a struct, is encoded with a schema "
    "of a registry. Without it the column is binary or text and written as it is.",
    "valueSubject": "Whose latest schema values are written with (default TOPIC-value).",
    "valueVersion": "Which version of it, instead.",
    "valueMessage": "Which message of a Protobuf schema (default the first).",
    "valueSchema": "With valueSchemaRegister: the text of the schema to register.",
    "valueSchemaRegister": "Whether to register valueSchema, or an Avro schema that follows from "
    "the columns (default false).",
    **REGISTRY_OPTIONS,
    "batchId": "For a batch write: a number; a batch of this sinkId that has the same or a lower "
    "one is not written again.",
}
"""Every option, and what it means. `docs/spark.md` and the errors read this table."""

DEFAULT_PREFIX: Final = "headrace-sink"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_TRANSACTION_TIMEOUT_MS: Final = 300_000
_BATCH_BYTES: Final = 1_000_000
_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1
# Names share one space with topics, of which the longest has 249 characters; a UUID has 36.
_PREFIX_MAX: Final = 200
_UUID_CHARACTERS: Final = 36

_READ_HERE: Final = frozenset({"acks", "compression.type", "transaction.timeout.ms"})
_IGNORED: Final = frozenset(
    {
        "batch.size",
        "buffer.memory",
        "delivery.timeout.ms",
        "enable.idempotence",
        "interceptor.classes",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "retries",
    }
)
_REFUSED: Final = {
    "key.serializer": "keys are written as they are: make them binary or string columns",
    "value.serializer": "values are written as they are: make them binary or string columns",
    "transactional.id": "the sink names its transactions itself: set sinkIdPrefix",
    "partitioner.class": "rows go where the column partition says, or by the hash of their key",
    "partitioner.ignore.keys": "rows go where the column partition says, or by their key's hash",
}


class SinkGuarantee(Enum):
    """How often a reader of committed records sees each row."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one sink, typed. They pickle: Spark sends them to tasks with the writer.

    Attributes:
        client: what `ClientSettings.of` takes.
        replay_id: `sinkId` and `batchId` of a batch write that may be repeated.
        value: encodes the column value with a schema; None leaves it as it is.
        replay_may_differ: a replay of the last batch may have another number of records.
    """

    client: dict[str, str] = field(repr=False)
    topic: str | None
    guarantee: SinkGuarantee
    prefix: str
    replay_id: tuple[str, int] | None
    replay_may_differ: bool
    acks: str
    codec: str
    batch_bytes: int
    transaction_timeout_ms: int
    value: "RegistryEncoder | None" = None

    @property
    def settings(self) -> ClientSettings:
        """The settings of the sink's connections, which outlive a task."""
        return replace(ClientSettings.of(self.client), reuses_connections=True)


def read_sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Parse what a user wrote.

    Raises:
        ConfigError: names the wrong option, and what to write instead.
    """
    texts = OptionText(options)
    texts.reject_unknown(SINK_OPTIONS)
    kafka = texts.kafka()
    for name, instead in _REFUSED.items():
        if name in kafka:
            raise ConfigError(f"option kafka.{name} is not supported: {instead}")
    topic = texts.get("topic")
    if topic is not None and (problem := topic_name_problem(topic)):
        raise wrong("topic", topic, problem)
    default = SinkGuarantee.EXACTLY_ONCE if streaming else SinkGuarantee.AT_LEAST_ONCE
    guarantee = SinkGuarantee(
        texts.choice("guarantee", default.value, tuple(each.value for each in SinkGuarantee))
    )
    prefix = _name(texts, "sinkIdPrefix") or DEFAULT_PREFIX
    replay_id = _replay_id(texts, guarantee, streaming)
    if replay_id is not None:
        _check_together(prefix, replay_id[0])
    producer = OptionText(kafka)
    client = client_texts(kafka, {*_READ_HERE, *_IGNORED})
    return SinkOptions(
        client=client,
        topic=topic,
        guarantee=guarantee,
        prefix=prefix,
        replay_id=replay_id,
        replay_may_differ=texts.boolean("replayMayDiffer", False),
        acks=_acks(producer.get("acks"), guarantee),
        codec=_codec(producer.get("compression.type")),
        batch_bytes=_BATCH_BYTES,
        transaction_timeout_ms=_timeout_ms(producer),
        value=_value(texts, topic),
    )


def _value(texts: OptionText, topic: str | None) -> "RegistryEncoder | None":
    name = texts.get("valueFormat")
    if name is None:
        for each in ("valueSchema", "valueSchemaRegister"):
            if each in texts:
                raise ConfigError(f"option {each} needs valueFormat: set it to avro")
        read_registry_format(texts, "value", "raw", topic)
        return None
    name = texts.choice("valueFormat", "avro", REGISTRY_FORMATS)
    found = read_registry_format(texts, "value", name, topic)
    if found is None:
        raise ConfigError(
            f"valueFormat {name} needs the option {URL}, as in {URL}=http://127.0.0.1:8081"
        )
    register, schema = texts.boolean("valueSchemaRegister", False), texts.get("valueSchema")
    if schema is not None and not register:
        raise ConfigError("option valueSchema is registered only with valueSchemaRegister=true")
    if register and schema is None and name != "avro":
        raise ConfigError(f"valueSchemaRegister with {name} needs the option valueSchema, a text")
    if register and found.version is not None:
        raise ConfigError("valueVersion and valueSchemaRegister exclude each other")
    from headrace.spark.value.registry.encoder import RegistryEncoder

    return RegistryEncoder(found, register, schema)


def _replay_id(
    texts: OptionText, guarantee: SinkGuarantee, streaming: bool
) -> tuple[str, int] | None:
    sink_id, batch_id = _name(texts, "sinkId"), texts.number("batchId", 0, _LONG_MAX)
    if sink_id is None and batch_id is None:
        return None
    if streaming:
        raise ConfigError(
            "sinkId and batchId are for batch writes: a stream has its query's id and its batches'"
        )
    if sink_id is None or batch_id is None:
        raise ConfigError("sinkId and batchId belong together: set both, or neither")
    if guarantee is not SinkGuarantee.EXACTLY_ONCE:
        raise ConfigError("sinkId and batchId need the option guarantee to be exactly-once")
    return sink_id, batch_id


def _name(texts: OptionText, option: str) -> str | None:
    """Read an option that must be a legal topic name: the staging topic has this name."""
    name = texts.get(option)
    if name is None:
        return None
    problem = topic_name_problem(name)
    if problem is None and len(name) > _PREFIX_MAX:
        problem = f"it has at most {_PREFIX_MAX} characters"
    if problem is not None:
        raise wrong(option, name, problem)
    return name


def _check_together(prefix: str, sink_id: str) -> None:
    """Check the length of a sink's name in a `foreachBatch`: prefix, its id and the query's id."""
    left = TOPIC_NAME_MAX_LENGTH - len(prefix) - _UUID_CHARACTERS - len("--")
    if len(sink_id) > left:
        raise wrong(
            "sinkId",
            sink_id,
            f"behind a sinkIdPrefix of {len(prefix)} characters and before a query's id it has at "
            f"most {left} characters",
        )


def _acks(text: str | None, guarantee: SinkGuarantee) -> str:
    acks = {"-1": "all", None: "all"}.get(text, text)
    if acks not in ("all", "0", "1"):
        raise wrong("kafka.acks", str(text), "write all, 1 or 0")
    if acks != "all" and guarantee is SinkGuarantee.EXACTLY_ONCE:
        raise wrong("kafka.acks", acks, "exactly-once needs all; or set guarantee to at-least-once")
    return acks


def _codec(text: str | None) -> str:
    codec = "none" if text is None else text.lower()
    if codec not in CODECS:
        raise wrong("kafka.compression.type", codec, "write one of " + ", ".join(CODECS))
    return codec


def _timeout_ms(producer: OptionText) -> int:
    text = producer.get("transaction.timeout.ms")
    if text is None:
        return _TRANSACTION_TIMEOUT_MS
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _INT_MAX):
        raise wrong("kafka.transaction.timeout.ms", text, f"write 1 to {_INT_MAX}")
    return int(text)
