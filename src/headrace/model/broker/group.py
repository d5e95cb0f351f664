"""Consumer groups and their offsets."""

from headrace.model.broker.key import INT_MAX, MINUTE_MS, broker_key
from headrace.model.config import ConfigType

GROUP_KEYS = [
    broker_key(
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        3000,
        "How long the first member of an empty group waits for more to join.",
        minimum=0,
    ),
    broker_key("group.max.size", ConfigType.INT, INT_MAX, "Members a group may have.", minimum=1),
    broker_key(
        "group.min.session.timeout.ms",
        ConfigType.INT,
        6000,
        "The shortest session timeout a member may ask for.",
        minimum=1,
    ),
    broker_key(
        "group.max.session.timeout.ms",
        ConfigType.INT,
        30 * MINUTE_MS,
        "The longest session timeout a member may ask for.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.heartbeat.interval.ms",
        ConfigType.INT,
        5000,
        "How often members of the new protocol (KIP-848) report.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "When a member of the new protocol that does not report is removed.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.min.heartbeat.interval.ms",
        ConfigType.INT,
        5000,
        "The shortest consumer.heartbeat.interval.ms that a group may be given.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.max.heartbeat.interval.ms",
        ConfigType.INT,
        15_000,
        "The longest consumer.heartbeat.interval.ms that a group may be given.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.min.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "The shortest consumer.session.timeout.ms that a group may be given.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.max.session.timeout.ms",
        ConfigType.INT,
        60_000,
        "The longest consumer.session.timeout.ms that a group may be given.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.max.size",
        ConfigType.INT,
        INT_MAX,
        "Members that a group of the new protocol may have.",
        minimum=1,
    ),
    broker_key(
        "group.consumer.assignors",
        ConfigType.LIST,
        ("uniform", "range"),
        "The server's assignors, the default first.",
        choices=("uniform", "range"),
    ),
    broker_key(
        "group.consumer.migration.policy",
        ConfigType.STRING,
        "bidirectional",
        "Whether a group with members may pass from the classic to the consumer protocol (upgrade) "
        "when a member of the new one joins, and back (downgrade) when the last of those leaves.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
    broker_key(
        "offset.metadata.max.bytes",
        ConfigType.INT,
        4096,
        "How much text may stand beside a committed offset.",
        minimum=0,
    ),
    broker_key(
        "offsets.commit.timeout.ms",
        ConfigType.INT,
        5000,
        "How long a reply of the coordinator waits until its records are with all replicas in "
        "sync; after that it is COORDINATOR_NOT_AVAILABLE, and the client retries.",
        minimum=1,
    ),
    broker_key(
        "offsets.retention.minutes",
        ConfigType.INT,
        7 * 24 * 60,
        "How long the offsets of a group without members are kept.",
        minimum=1,
    ),
    broker_key(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        10 * MINUTE_MS,
        "How often expired offsets are looked for.",
        minimum=1,
    ),
    broker_key(
        "offsets.topic.num.partitions",
        ConfigType.INT,
        50,
        "Partitions of __consumer_offsets; fixed once the topic exists.",
        minimum=1,
    ),
    broker_key(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "Replicas of __consumer_offsets. The topic is not created before so many brokers run; a "
        "broker without others creates it with one.",
        minimum=1,
    ),
    broker_key(
        "offsets.topic.segment.bytes",
        ConfigType.INT,
        100 * 1024 * 1024,
        "Segment size of __consumer_offsets.",
        minimum=1024,
    ),
]
