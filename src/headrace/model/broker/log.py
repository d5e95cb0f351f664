"""Retention, flushing and compaction of logs."""

from headrace.model.broker.key import DAY_MS, HOUR_MS, LONG_MAX, MINUTE_MS, broker_key
from headrace.model.config import ConfigType

LOG_KEYS = [
    broker_key(
        "log.retention.check.interval.ms",
        ConfigType.LONG,
        5 * MINUTE_MS,
        "How often old segments are looked for.",
        minimum=1,
    ),
    broker_key(
        "log.flush.scheduler.interval.ms",
        ConfigType.LONG,
        1000,
        "How often flush.ms is looked at.",
        minimum=1,
    ),
    broker_key(
        "log.flush.offset.checkpoint.interval.ms",
        ConfigType.INT,
        MINUTE_MS,
        "How often the recovery points are written down.",
        minimum=0,
    ),
    broker_key(
        "replica.high.watermark.checkpoint.interval.ms",
        ConfigType.LONG,
        5000,
        "How often the high watermarks are written down.",
        minimum=1,
    ),
    broker_key(
        "log.cleaner.enable", ConfigType.BOOLEAN, True, "Whether compacted topics are compacted."
    ),
    broker_key(
        "log.cleaner.backoff.ms",
        ConfigType.LONG,
        15_000,
        "How long compaction rests when there is nothing to do.",
        minimum=0,
        dynamic=True,
    ),
    broker_key(
        "log.cleaner.dedupe.buffer.size",
        ConfigType.LONG,
        128 * 1024 * 1024,
        "Memory for the keys of one compaction.",
        minimum=1024 * 1024,
        dynamic=True,
    ),
    broker_key(
        "log.cleaner.io.max.bytes.per.second",
        ConfigType.DOUBLE,
        1.7976931348623157e308,
        "How fast compaction may read and write, together.",
        minimum=1,
        dynamic=True,
    ),
    broker_key(
        "log.cleaner.threads",
        ConfigType.INT,
        1,
        "Threads that compact.",
        minimum=1,
        maximum=1,
        dynamic=True,
        bound_reason="one thread compacts the logs of a broker, one after the other",
    ),
    broker_key(
        "producer.id.expiration.ms",
        ConfigType.INT,
        DAY_MS,
        "How long an idle idempotent producer's sequences are remembered.",
        minimum=1,
        dynamic=True,
    ),
    broker_key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        ConfigType.LONG,
        LONG_MAX,
        "How fast logs that move between log directories are copied, together.",
        minimum=1,
        dynamic=True,
    ),
    broker_key(
        "num.replica.alter.log.dirs.threads",
        ConfigType.INT,
        None,
        "How many logs move between log directories at once; unset: one per log directory.",
        minimum=1,
    ),
]

COARSE_KEYS = [
    broker_key(
        "log.retention.minutes",
        ConfigType.INT,
        None,
        "log.retention.ms in minutes; used when that is not set.",
        minimum=-1,
    ),
    broker_key(
        "log.retention.hours",
        ConfigType.INT,
        None,
        "log.retention.ms in hours; used when neither that nor log.retention.minutes is set.",
        minimum=-1,
    ),
    broker_key(
        "log.roll.jitter.hours",
        ConfigType.INT,
        None,
        "log.roll.jitter.ms in hours; used when that is not set.",
        minimum=0,
    ),
    broker_key(
        "log.roll.hours",
        ConfigType.INT,
        None,
        "log.roll.ms in hours; used when that is not set.",
        minimum=1,
    ),
]

# (coarse key, key in milliseconds, milliseconds in its unit), the most precise first.
COARSE_UNITS = (
    ("log.retention.minutes", "log.retention.ms", MINUTE_MS),
    ("log.retention.hours", "log.retention.ms", HOUR_MS),
    ("log.roll.hours", "log.roll.ms", HOUR_MS),
    ("log.roll.jitter.hours", "log.roll.jitter.ms", HOUR_MS),
)
