"""The configuration of a topic, and `LogConfig`, its typed form that the log reads on hot paths."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from headrace.model.config import ConfigKey, ConfigTable, ConfigType, ConfigValue
from headrace.model.error import ConfigError
from headrace.model.table.table_config import TABLE_CONFIG_KEYS, TABLE_KEYS

_DAY_MS = 24 * 60 * 60 * 1000
_LONG_MAX = 2**63 - 1
_REPLICA = re.compile(r"\*|\d{1,10}:\d{1,10}")

# The smallest index Kafka takes for a segment, and room for one entry of either kind.
_INDEX_MINIMUM_BYTES = 4

_TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
SUBJECT_NAME_STRATEGIES = (
    _TOPIC_NAME_STRATEGY,
    "io.confluent.kafka.serializers.subject.RecordNameStrategy",
    "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
)
"""How the subject of a topic's keys or values is named, by Confluent's classes."""

MIRROR_KEYS = "headrace.mirror."
"""How keys begin that make a topic a mirror. They let a client read a link's source with the link's
rights, and write to a mirror: changing them takes a right on the cluster."""

_NOT_TIERED = "records are kept on the brokers' own disks, there is no tiered storage"


def _key(name: str, type_: ConfigType, default: ConfigValue, doc: str, **rest: Any) -> ConfigKey:
    rest.setdefault("broker_default", f"log.{name}")
    return ConfigKey(name=name, type=type_, default=default, doc=doc, **rest)


TOPIC_CONFIG = ConfigTable.of(
    "a topic",
    [
        _key(
            "cleanup.policy",
            ConfigType.LIST,
            ("delete",),
            "What happens to old records: 'delete' drops whole segments by age and size, 'compact' "
            "keeps the last value of each key; both may stand together.",
            choices=("delete", "compact"),
        ),
        _key(
            "compression.gzip.level",
            ConfigType.INT,
            -1,
            "Level for gzip when the broker compresses itself; -1 is the codec's own default.",
            minimum=-1,
            maximum=9,
            broker_default="compression.gzip.level",
        ),
        _key(
            "compression.lz4.level",
            ConfigType.INT,
            9,
            "Level for lz4 when the broker compresses itself.",
            minimum=1,
            maximum=17,
            broker_default="compression.lz4.level",
        ),
        _key(
            "compression.type",
            ConfigType.STRING,
            "producer",
            "The codec batches are stored in; 'producer' keeps whatever the producer chose.",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            broker_default="compression.type",
        ),
        _key(
            "compression.zstd.level",
            ConfigType.INT,
            3,
            "Level for zstd when the broker compresses itself.",
            minimum=-131072,
            maximum=22,
            broker_default="compression.zstd.level",
        ),
        _key(
            "confluent.key.schema.validation",
            ConfigType.BOOLEAN,
            False,
            "Refuse records whose key does not name a schema that confluent.schema.registry.url "
            "has under the topic's subject; null is taken.",
            broker_default=None,
        ),
        _key(
            "confluent.key.subject.name.strategy",
            ConfigType.STRING,
            _TOPIC_NAME_STRATEGY,
            "Which subject that is: TOPIC-key, the record's name, or TOPIC-NAME.",
            choices=SUBJECT_NAME_STRATEGIES,
            broker_default=None,
        ),
        _key(
            "confluent.value.schema.validation",
            ConfigType.BOOLEAN,
            False,
            "Refuse records whose value does not name a schema that confluent.schema.registry.url "
            "has under the topic's subject; null is taken.",
            broker_default=None,
        ),
        _key(
            "confluent.value.subject.name.strategy",
            ConfigType.STRING,
            _TOPIC_NAME_STRATEGY,
            "Which subject that is: TOPIC-value, the record's name, or TOPIC-NAME.",
            choices=SUBJECT_NAME_STRATEGIES,
            broker_default=None,
        ),
        _key(
            "delete.retention.ms",
            ConfigType.LONG,
            _DAY_MS,
            "How long compaction keeps a tombstone, so that a reader that began before sees it.",
            minimum=0,
            broker_default="log.cleaner.delete.retention.ms",
        ),
        _key(
            "file.delete.delay.ms",
            ConfigType.LONG,
            60_000,
            "How long a dropped segment's files stay on disk for readers that hold them.",
            minimum=0,
            broker_default="log.segment.delete.delay.ms",
        ),
        _key(
            "flush.messages",
            ConfigType.LONG,
            _LONG_MAX,
            "Sync to disk after this many records; 1 makes every append wait for the disk, with "
            "waiters sharing one sync.",
            minimum=1,
            broker_default="log.flush.interval.messages",
        ),
        _key(
            "flush.ms",
            ConfigType.LONG,
            _LONG_MAX,
            "Sync to disk at the latest after this time.",
            minimum=0,
            broker_default="log.flush.interval.ms",
        ),
        _key(
            "follower.replication.throttled.replicas",
            ConfigType.LIST,
            (),
            "Replicas that fetch no faster than follower.replication.throttled.rate while they "
            "catch up: PARTITION:BROKER, separated by commas, or * for all.",
            broker_default=None,
        ),
        _key(
            "headrace.mirror.link",
            ConfigType.STRING,
            "",
            "The mirror link whose source this topic is copied from, offsets and all; clients only "
            "read it. Empty for every other topic. A topic becomes a mirror when it is created.",
            broker_default=None,
        ),
        _key(
            "headrace.mirror.state",
            ConfigType.STRING,
            "copied",
            "Of a mirror topic: 'paused' copies nothing for now, 'stopped' nothing any more, and "
            "ends the transactions of the source that are open, before the topic is promoted.",
            choices=("copied", "paused", "stopped"),
            broker_default=None,
        ),
        _key(
            "headrace.mirror.topic",
            ConfigType.STRING,
            "",
            "Of a mirror topic: its name at the source, if that is another.",
            broker_default=None,
        ),
        _key(
            "headrace.mirror.topic.id",
            ConfigType.STRING,
            "",
            "Of a mirror topic: its id at the source. One that is created again there is another "
            "topic, and is not copied.",
            broker_default=None,
        ),
        *TABLE_CONFIG_KEYS,
        _key(
            "index.interval.bytes",
            ConfigType.INT,
            4096,
            "How many bytes of log lie between two entries of the offset index.",
            minimum=0,
            broker_default="log.index.interval.bytes",
        ),
        _key(
            "leader.replication.throttled.replicas",
            ConfigType.LIST,
            (),
            "Replicas that leaders serve no faster than leader.replication.throttled.rate while "
            "others catch up: PARTITION:BROKER, separated by commas, or * for all.",
            broker_default=None,
        ),
        _key(
            "local.retention.bytes",
            ConfigType.LONG,
            -2,
            "Taken for compatibility.",
            minimum=-2,
            without_effect=_NOT_TIERED,
        ),
        _key(
            "local.retention.ms",
            ConfigType.LONG,
            -2,
            "Taken for compatibility.",
            minimum=-2,
            without_effect=_NOT_TIERED,
        ),
        _key(
            "max.compaction.lag.ms",
            ConfigType.LONG,
            _LONG_MAX,
            "A record is compacted at the latest after this time, however clean the log is.",
            minimum=1,
            broker_default="log.cleaner.max.compaction.lag.ms",
        ),
        _key(
            "max.message.bytes",
            ConfigType.INT,
            1_048_588,
            "The largest record batch taken, as it is stored (compressed).",
            minimum=0,
            broker_default="message.max.bytes",
        ),
        _key(
            "message.timestamp.after.max.ms",
            ConfigType.LONG,
            3_600_000,
            "How far in the future a record's timestamp may lie.",
            minimum=0,
        ),
        _key(
            "message.timestamp.before.max.ms",
            ConfigType.LONG,
            _LONG_MAX,
            "How far in the past a record's timestamp may lie.",
            minimum=0,
        ),
        _key(
            "message.timestamp.type",
            ConfigType.STRING,
            "CreateTime",
            "Whose clock stamps a record: the producer's or, when it is appended, the broker's.",
            choices=("CreateTime", "LogAppendTime"),
        ),
        _key(
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            0.5,
            "The share of the log that must be uncompacted before compaction is worth it.",
            minimum=0,
            maximum=1,
            broker_default="log.cleaner.min.cleanable.ratio",
        ),
        _key(
            "min.compaction.lag.ms",
            ConfigType.LONG,
            0,
            "A record stays uncompacted at least this long.",
            minimum=0,
            broker_default="log.cleaner.min.compaction.lag.ms",
        ),
        _key(
            "min.insync.replicas",
            ConfigType.INT,
            1,
            "How many replicas must hold a record before acks=all is answered.",
            minimum=1,
            broker_default="min.insync.replicas",
        ),
        _key(
            "preallocate",
            ConfigType.BOOLEAN,
            False,
            "Taken for compatibility and without effect: segments grow as they are written.",
        ),
        _key(
            "remote.log.copy.disable",
            ConfigType.BOOLEAN,
            False,
            "Taken for compatibility.",
            broker_default=None,
            without_effect=_NOT_TIERED,
        ),
        _key(
            "remote.log.delete.on.disable",
            ConfigType.BOOLEAN,
            False,
            "Taken for compatibility.",
            broker_default=None,
            without_effect=_NOT_TIERED,
        ),
        _key(
            "remote.storage.enable",
            ConfigType.BOOLEAN,
            False,
            "Taken for compatibility.",
            choices=("false",),
            broker_default=None,
            without_effect=_NOT_TIERED,
            bound_reason=_NOT_TIERED,
        ),
        _key(
            "retention.bytes",
            ConfigType.LONG,
            -1,
            "Drop the oldest segments while a partition is larger than this; -1 keeps all.",
            minimum=-1,
        ),
        _key(
            "retention.ms",
            ConfigType.LONG,
            7 * _DAY_MS,
            "Drop segments whose newest record is older than this; -1 keeps all.",
            minimum=-1,
        ),
        _key(
            "segment.bytes",
            ConfigType.INT,
            1_073_741_824,
            "Start a new segment when this one would grow past this size.",
            minimum=1024,
        ),
        _key(
            "segment.index.bytes",
            ConfigType.INT,
            10_485_760,
            "Start a new segment when its index would grow past this size.",
            minimum=_INDEX_MINIMUM_BYTES,
            broker_default="log.index.size.max.bytes",
        ),
        _key(
            "segment.jitter.ms",
            ConfigType.LONG,
            0,
            "A random part taken off segment.ms, so that partitions do not all roll at once.",
            minimum=0,
            broker_default="log.roll.jitter.ms",
        ),
        _key(
            "segment.ms",
            ConfigType.LONG,
            7 * _DAY_MS,
            "Start a new segment when this one is older than this, so that it can be dropped.",
            minimum=1,
            broker_default="log.roll.ms",
        ),
        _key(
            "unclean.leader.election.enable",
            ConfigType.BOOLEAN,
            False,
            "Let a replica that is behind become leader when no other is left, losing records.",
            broker_default="unclean.leader.election.enable",
        ),
    ],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Those of `TOPIC_CONFIG` that have an effect on the log, as attributes. A dot becomes an
    underscore: `retention.ms`, `retention_ms`.

    Attributes:
        compacted, deleted, log_append_time: what every append asks, worked out once.
        roll_ms: how old the first record of a segment may get.
        checks_schemas: records must name schemas that the registry has.
        copies: it is a mirror topic, and records of its source are copied now.
        takes_as_sent: a sound batch is appended as it came: nothing in it is looked at or changed.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    confluent_key_schema_validation: bool = False
    confluent_key_subject_name_strategy: str = _TOPIC_NAME_STRATEGY
    confluent_value_schema_validation: bool = False
    confluent_value_subject_name_strategy: str = _TOPIC_NAME_STRATEGY
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _LONG_MAX
    flush_ms: int = _LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    headrace_mirror_link: str = ""
    headrace_mirror_state: str = "copied"
    headrace_mirror_topic: str = ""
    headrace_mirror_topic_id: str = ""
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    max_compaction_lag_ms: int = _LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    unclean_leader_election_enable: bool = False
    compacted: bool = field(init=False, repr=False, compare=False)
    deleted: bool = field(init=False, repr=False, compare=False)
    log_append_time: bool = field(init=False, repr=False, compare=False)
    roll_ms: int = field(init=False, repr=False, compare=False)
    checks_schemas: bool = field(init=False, repr=False, compare=False)
    takes_as_sent: bool = field(init=False, repr=False, compare=False)
    copies: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        compacted = "compact" in self.cleanup_policy
        # max.compaction.lag.ms can only be kept if the record leaves the active segment in time,
        # which is never compacted.
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if compacted else self.segment_ms
        object.__setattr__(self, "compacted", compacted)
        object.__setattr__(self, "deleted", "delete" in self.cleanup_policy)
        object.__setattr__(self, "log_append_time", self.message_timestamp_type == "LogAppendTime")
        object.__setattr__(self, "roll_ms", roll_ms)
        checks_schemas = (
            self.confluent_key_schema_validation or self.confluent_value_schema_validation
        )
        object.__setattr__(self, "checks_schemas", checks_schemas)
        takes_as_sent = (
            not compacted
            and not checks_schemas
            and not self.headrace_mirror_link
            and not self.log_append_time
            and self.compression_type == "producer"
            and self.message_timestamp_before_max_ms == _LONG_MAX
        )
        object.__setattr__(self, "takes_as_sent", takes_as_sent)
        copies = bool(self.headrace_mirror_link) and self.headrace_mirror_state == "copied"
        object.__setattr__(self, "copies", copies)

    @classmethod
    def of(cls, values: Mapping[str, ConfigValue]) -> "LogConfig":
        """Return the configuration of typed values by key; keys left out have their defaults.

        >>> LogConfig.of({"retention.ms": 1000}).retention_ms
        1000
        """
        fields: dict[str, Any] = {
            name.replace(".", "_"): value
            for name, value in values.items()
            if TOPIC_CONFIG[name].without_effect is None and not name.startswith(TABLE_KEYS)
        }
        config = cls(**fields)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) cannot be above "
                f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
            )
        if config.headrace_mirror_topic_id:
            try:
                UUID(config.headrace_mirror_topic_id)
            except ValueError:
                raise ConfigError(
                    f"headrace.mirror.topic.id is {config.headrace_mirror_topic_id!r}: write a "
                    "UUID, with hyphens"
                ) from None
        for throttled in (
            *config.leader_replication_throttled_replicas,
            *config.follower_replication_throttled_replicas,
        ):
            if not _REPLICA.fullmatch(throttled):
                raise ConfigError(
                    f"{throttled!r} names no replica to throttle: write PARTITION:BROKER or *"
                )
        return config

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> "LogConfig":
        """Return the configuration of the texts that a user wrote.

        >>> LogConfig.parse({"cleanup.policy": "compact,delete"}).compacted
        True
        """
        return cls.of(TOPIC_CONFIG.parse(texts))
