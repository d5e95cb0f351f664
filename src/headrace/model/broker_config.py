"""The configuration of a broker, with Kafka's names and defaults.

The keys that only give topics their defaults (`log.retention.ms` for `retention.ms`) are not
written down a second time: they are made from `TOPIC_CONFIG`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.model.config import ConfigKey, ConfigTable, ConfigType, ConfigValue
from headrace.model.topic_config import TOPIC_CONFIG

_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


def _key(name: str, type_: ConfigType, default: ConfigValue, doc: str, **rest: Any) -> ConfigKey:
    rest.setdefault("dynamic", False)
    return ConfigKey(name=name, type=type_, default=default, doc=doc, **rest)


_NODE = [
    _key("node.id", ConfigType.INT, 1, "This broker's number in its cluster.", minimum=0),
    _key("broker.rack", ConfigType.STRING, None, "Where this broker stands, for placement."),
    _key("cluster.id", ConfigType.STRING, None, "The cluster's id; one is made when missing."),
    _key(
        "log.dirs",
        ConfigType.LIST,
        ("data",),
        "Where the partitions lie: one directory a disk, separated by commas.",
    ),
    _key(
        "num.recovery.threads.per.data.dir",
        ConfigType.INT,
        2,
        "Threads that check a directory's logs after a crash.",
        minimum=1,
    ),
]

_NETWORK = [
    _key(
        "listeners",
        ConfigType.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens: NAME://HOST:PORT, separated by commas; IPv6 in brackets.",
    ),
    _key(
        "advertised.listeners",
        ConfigType.LIST,
        (),
        "What clients are told to connect to; the same names as listeners, which is the default.",
    ),
    _key(
        "listener.security.protocol.map",
        ConfigType.LIST,
        (),
        "The protocol of listeners with names of their own: NAME:PROTOCOL, separated by commas.",
    ),
    _key(
        "headrace.admin.listener",
        ConfigType.STRING,
        "127.0.0.1:0",
        "HOST:PORT of /healthz, /readyz and /metrics; port 0 takes a free one, none turns it off.",
    ),
    _key(
        "socket.request.max.bytes",
        ConfigType.INT,
        100 * 1024 * 1024,
        "The largest request taken; a larger or negative size closes the connection unread.",
        minimum=1024,
    ),
    _key(
        "socket.listen.backlog.size",
        ConfigType.INT,
        1024,
        "Connections the kernel queues while the broker is busy.",
        minimum=1,
    ),
    _key(
        "connections.max.idle.ms",
        ConfigType.LONG,
        10 * _MINUTE_MS,
        "A connection without a request for this long is closed.",
        minimum=1,
    ),
    _key(
        "max.connections",
        ConfigType.INT,
        _INT_MAX,
        "Connections the broker keeps at once; more are closed when they come.",
        minimum=0,
        dynamic=True,
    ),
    _key(
        "max.connections.per.ip",
        ConfigType.INT,
        _INT_MAX,
        "Connections from one address at once.",
        minimum=0,
        dynamic=True,
    ),
    _key(
        "queued.max.request.bytes",
        ConfigType.LONG,
        1024 * 1024 * 1024,
        "What requests that are still arriving may hold together; past it the oldest is given up.",
        minimum=1024 * 1024,
    ),
    _key(
        "queued.max.requests",
        ConfigType.INT,
        500,
        "Requests of one connection that may wait for their answers before reading pauses.",
        minimum=1,
    ),
]

_TOPICS = [
    _key(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        True,
        "Create a topic when a client asks for its metadata and allows it.",
    ),
    _key("delete.topic.enable", ConfigType.BOOLEAN, True, "Let clients delete topics."),
    _key(
        "num.partitions",
        ConfigType.INT,
        1,
        "Partitions of a topic that was created without a number.",
        minimum=1,
        dynamic=True,
    ),
    _key(
        "default.replication.factor",
        ConfigType.INT,
        1,
        "Replicas of a topic that was created without a number.",
        minimum=1,
        dynamic=True,
    ),
]

_CLUSTER = [
    _key(
        "zookeeper.connect",
        ConfigType.STRING,
        None,
        "The ensemble a cluster meets in: host:port,host:port/root; none for a broker alone.",
    ),
    _key(
        "zookeeper.session.timeout.ms",
        ConfigType.INT,
        9000,
        "After so long without a word from it a broker is counted out.",
        minimum=100,
    ),
    _key(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        30_000,
        "A follower that was not at its leader's end for so long is not in sync any more.",
        minimum=1,
    ),
    _key(
        "replica.fetch.max.bytes",
        ConfigType.INT,
        1024 * 1024,
        "What a follower takes of one partition at a time; a larger batch comes whole.",
        minimum=0,
    ),
    _key(
        "replica.fetch.response.max.bytes",
        ConfigType.INT,
        10 * 1024 * 1024,
        "What a follower takes of one leader at a time.",
        minimum=0,
    ),
    _key(
        "replica.fetch.min.bytes",
        ConfigType.INT,
        1,
        "A follower's fetch waits for so much.",
        minimum=1,
    ),
    _key(
        "replica.fetch.wait.max.ms",
        ConfigType.INT,
        500,
        "A follower's fetch waits no longer than this.",
        minimum=1,
    ),
    _key(
        "replica.socket.timeout.ms",
        ConfigType.INT,
        30_000,
        "A leader that answers nothing for so long, or replica.lag.time.max.ms, is called anew.",
        minimum=1,
    ),
    _key(
        "replica.fetch.backoff.ms",
        ConfigType.INT,
        1000,
        "How long a follower rests when its leader cannot be reached.",
        minimum=0,
    ),
    _key(
        "leader.replication.throttled.rate",
        ConfigType.LONG,
        _LONG_MAX,
        "Bytes a second that this broker sends, as leader, to throttled replicas that catch up.",
        minimum=0,
        dynamic=True,
    ),
    _key(
        "follower.replication.throttled.rate",
        ConfigType.LONG,
        _LONG_MAX,
        "Bytes a second that this broker fetches for its throttled replicas that catch up.",
        minimum=0,
        dynamic=True,
    ),
    _key(
        "replica.selector.class",
        ConfigType.STRING,
        None,
        "RackAwareReplicaSelector sends consumers to a follower on their own rack (KIP-392).",
    ),
    _key(
        "controlled.shutdown.enable",
        ConfigType.BOOLEAN,
        True,
        "Move leaders to other brokers before stopping.",
    ),
    _key(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        True,
        "Give leadership back to the preferred replicas from time to time.",
    ),
    _key(
        "leader.imbalance.check.interval.seconds",
        ConfigType.LONG,
        300,
        "How often that is done.",
        minimum=1,
    ),
]

_FETCH = [
    _key(
        "fetch.max.bytes",
        ConfigType.INT,
        55 * 1024 * 1024,
        "The most a single fetch answers, whatever the client asks for.",
        minimum=1024,
    ),
    _key(
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
        1000,
        "Fetch sessions (KIP-227) kept at once.",
        minimum=0,
    ),
]

_LOG = [
    _key(
        "log.retention.check.interval.ms",
        ConfigType.LONG,
        5 * _MINUTE_MS,
        "How often old segments are looked for.",
        minimum=1,
    ),
    _key(
        "log.flush.scheduler.interval.ms",
        ConfigType.LONG,
        1000,
        "How often flush.ms is looked at.",
        minimum=1,
    ),
    _key(
        "log.flush.offset.checkpoint.interval.ms",
        ConfigType.INT,
        _MINUTE_MS,
        "How often the recovery points are written down.",
        minimum=0,
    ),
    _key("log.cleaner.enable", ConfigType.BOOLEAN, True, "Whether compacted topics are compacted."),
    _key(
        "log.cleaner.backoff.ms",
        ConfigType.LONG,
        15_000,
        "How long compaction rests when there is nothing to do.",
        minimum=0,
    ),
    _key(
        "log.cleaner.dedupe.buffer.size",
        ConfigType.LONG,
        128 * 1024 * 1024,
        "Memory for the keys of one compaction.",
        minimum=1024 * 1024,
        dynamic=True,
    ),
    _key(
        "log.cleaner.io.max.bytes.per.second",
        ConfigType.DOUBLE,
        1.7976931348623157e308,
        "How fast compaction may read and write, together.",
        minimum=1,
        dynamic=True,
    ),
    _key(
        "producer.id.expiration.ms",
        ConfigType.INT,
        _DAY_MS,
        "How long an idle idempotent producer's sequences are remembered.",
        minimum=1,
        dynamic=True,
    ),
]

_COARSE = [
    _key(
        "log.retention.minutes",
        ConfigType.INT,
        None,
        "log.retention.ms in minutes; used when that is not set.",
        minimum=-1,
    ),
    _key(
        "log.retention.hours",
        ConfigType.INT,
        None,
        "log.retention.ms in hours; used when neither that nor log.retention.minutes is set.",
        minimum=-1,
    ),
    _key(
        "log.roll.hours",
        ConfigType.INT,
        None,
        "log.roll.ms in hours; used when that is not set.",
        minimum=1,
    ),
]

# (coarse key, key in milliseconds, milliseconds in its unit), the most precise first.
_COARSE_UNITS = (
    ("log.retention.minutes", "log.retention.ms", _MINUTE_MS),
    ("log.retention.hours", "log.retention.ms", _HOUR_MS),
    ("log.roll.hours", "log.roll.ms", _HOUR_MS),
)

_GROUPS = [
    _key(
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        3000,
        "How long the first member of an empty group waits for more to join.",
        minimum=0,
    ),
    _key("group.max.size", ConfigType.INT, _INT_MAX, "Members a group may have.", minimum=1),
    _key(
        "group.min.session.timeout.ms",
        ConfigType.INT,
        6000,
        "The shortest session timeout a member may ask for.",
        minimum=1,
    ),
    _key(
        "group.max.session.timeout.ms",
        ConfigType.INT,
        30 * _MINUTE_MS,
        "The longest session timeout a member may ask for.",
        minimum=1,
    ),
    _key(
        "group.consumer.heartbeat.interval.ms",
        ConfigType.INT,
        5000,
        "How often members of the new protocol (KIP-848) report.",
        minimum=1,
    ),
    _key(
        "group.consumer.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "When a member of the new protocol that does not report is removed.",
        minimum=1,
    ),
    _key(
        "group.consumer.assignors",
        ConfigType.LIST,
        ("uniform", "range"),
        "The server's assignors, the default first.",
        choices=("uniform", "range"),
    ),
    _key(
        "offset.metadata.max.bytes",
        ConfigType.INT,
        4096,
        "How much text may stand beside a committed offset.",
        minimum=0,
    ),
    _key(
        "offsets.retention.minutes",
        ConfigType.INT,
        7 * 24 * 60,
        "How long the offsets of a group without members are kept.",
        minimum=1,
    ),
    _key(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        10 * _MINUTE_MS,
        "How often expired offsets are looked for.",
        minimum=1,
    ),
    _key(
        "offsets.topic.num.partitions",
        ConfigType.INT,
        50,
        "Partitions of __consumer_offsets; fixed once the topic exists.",
        minimum=1,
    ),
    _key(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "Replicas of __consumer_offsets; as many as there are brokers when there are fewer.",
        minimum=1,
    ),
    _key(
        "offsets.topic.segment.bytes",
        ConfigType.INT,
        100 * 1024 * 1024,
        "Segment size of __consumer_offsets.",
        minimum=1024,
    ),
]

_TRANSACTIONS = [
    _key(
        "transaction.max.timeout.ms",
        ConfigType.INT,
        15 * _MINUTE_MS,
        "The longest transaction timeout a producer may ask for.",
        minimum=1,
    ),
    _key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ConfigType.INT,
        10_000,
        "How often transactions past their timeout are looked for.",
        minimum=1,
    ),
    _key(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        7 * _DAY_MS,
        "How long a transactional id without a transaction is remembered.",
        minimum=1,
    ),
    _key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigType.INT,
        _HOUR_MS,
        "How often transactional ids that nobody uses any more are looked for.",
        minimum=1,
    ),
    _key(
        "transaction.state.log.num.partitions",
        ConfigType.INT,
        50,
        "Partitions of __transaction_state; fixed once the topic exists.",
        minimum=1,
    ),
    _key(
        "transaction.state.log.replication.factor",
        ConfigType.SHORT,
        3,
        "Replicas of __transaction_state; as many as there are brokers when there are fewer.",
        minimum=1,
    ),
    _key(
        "transaction.state.log.segment.bytes",
        ConfigType.INT,
        100 * 1024 * 1024,
        "Segment size of __transaction_state.",
        minimum=1024,
    ),
]

_SECURITY = [
    _key(
        "sasl.enabled.mechanisms",
        ConfigType.LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "How clients of a SASL_PLAINTEXT listener may prove who they are; PLAIN needs "
        "headrace.sasl.plain.users.file.",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
    _key(
        "inter.broker.listener.name",
        ConfigType.STRING,
        None,
        "The listener through which brokers talk to each other; without it the first one of "
        "security.inter.broker.protocol.",
    ),
    _key(
        "security.inter.broker.protocol",
        ConfigType.STRING,
        "PLAINTEXT",
        "What brokers speak with each other, where inter.broker.listener.name does not say.",
        choices=("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"),
    ),
    _key(
        "sasl.mechanism.inter.broker.protocol",
        ConfigType.STRING,
        "SCRAM-SHA-512",
        "How brokers log in to each other, if they must.",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
    _key(
        "headrace.inter.broker.user.file",
        ConfigType.STRING,
        None,
        "A file with one line user=password: as whom brokers log in to each other.",
    ),
    _key(
        "headrace.sasl.plain.users.file",
        ConfigType.STRING,
        None,
        "A file with the users of PLAIN, a line user=password each; read again when it changes.",
    ),
    _key(
        "ssl.keystore.type",
        ConfigType.STRING,
        "PEM",
        "The format of ssl.keystore.location (KIP-651).",
        choices=("PEM",),
    ),
    _key(
        "ssl.keystore.location",
        ConfigType.STRING,
        None,
        "A file with the broker's private key, without a password, and its certificate chain, for "
        "SSL and SASL_SSL listeners.",
    ),
    _key(
        "ssl.truststore.type",
        ConfigType.STRING,
        "PEM",
        "The format of ssl.truststore.location (KIP-651).",
        choices=("PEM",),
    ),
    _key(
        "ssl.truststore.location",
        ConfigType.STRING,
        None,
        "A file with the authorities whose certificates of clients and other brokers are believed.",
    ),
    _key(
        "ssl.client.auth",
        ConfigType.STRING,
        "none",
        "Whether clients of SSL listeners show certificates; their principals are the subjects.",
        choices=("none", "requested", "required"),
    ),
    _key(
        "ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "https",
        "https: another broker's certificate must be for its host; empty: for any.",
        choices=("https", ""),
    ),
    _key(
        "connection.failed.authentication.delay.ms",
        ConfigType.INT,
        100,
        "How long a failed authentication waits for its answer, so that guessing is slow.",
        minimum=0,
    ),
    _key(
        "connections.max.reauth.ms",
        ConfigType.LONG,
        0,
        "How long a client stays authenticated (KIP-368); 0 is for as long as it is connected.",
        minimum=0,
    ),
    _key(
        "authorizer.class.name",
        ConfigType.STRING,
        "",
        "Kafka's StandardAuthorizer checks every request against the ACLs; empty lets all pass.",
        choices=("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ),
    _key(
        "super.users",
        ConfigType.STRING,
        "",
        "Principals that may do everything, separated by semicolons: User:anna;User:bob.",
    ),
    _key(
        "allow.everyone.if.no.acl.found",
        ConfigType.BOOLEAN,
        False,
        "Whether a resource without any ACL is open to everybody or closed to all.",
    ),
]

_OWN = [
    *_NODE,
    *_NETWORK,
    *_TOPICS,
    *_CLUSTER,
    *_FETCH,
    *_LOG,
    *_COARSE,
    *_GROUPS,
    *_TRANSACTIONS,
    *_SECURITY,
]


def _topic_defaults() -> list[ConfigKey]:
    return [
        replace(key, name=key.broker_default, broker_default=None)
        for key in TOPIC_CONFIG
        if key.broker_default is not None
    ]


BROKER_CONFIG = ConfigTable.of("the broker", [*_OWN, *_topic_defaults()])


def parse_broker_config(texts: Mapping[str, str]) -> dict[str, ConfigValue]:
    """The value of every key of a broker that was configured with these texts.

    >>> parse_broker_config({"log.retention.hours": "2"})["log.retention.ms"]
    7200000
    """
    written = BROKER_CONFIG.parse(texts)
    values = BROKER_CONFIG.defaults() | written
    for coarse, fine, unit_ms in _COARSE_UNITS:
        amount = written.get(coarse)
        if isinstance(amount, int) and fine not in written:
            written[fine] = values[fine] = amount * unit_ms if amount >= 0 else amount
    return values


def topic_defaults(broker: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """What a topic without any configuration of its own has on a broker configured so."""
    return {key.name: broker.get(key.broker_default or "", key.default) for key in TOPIC_CONFIG}
