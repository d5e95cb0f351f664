"""ZooKeeper, replication and leadership."""

from headrace.model.broker.key import LONG_MAX, broker_key
from headrace.model.config import ConfigType

CLUSTER_KEYS = [
    broker_key(
        "zookeeper.connect",
        ConfigType.STRING,
        None,
        "The ensemble a cluster meets in: host:port,host:port/root; none for a broker alone.",
    ),
    broker_key(
        "zookeeper.session.timeout.ms",
        ConfigType.INT,
        9000,
        "After so long without a word from it a broker is counted out.",
        minimum=100,
    ),
    broker_key(
        "zookeeper.set.acl",
        ConfigType.BOOLEAN,
        False,
        "Only the brokers' ZooKeeper user may change nodes, or read SCRAM keys and broker "
        "configurations; nodes made before are closed at the start.",
    ),
    broker_key(
        "headrace.zookeeper.user.file",
        ConfigType.STRING,
        None,
        "A file with one line user=password: as whom brokers log in to ZooKeeper.",
    ),
    broker_key(
        "headrace.zookeeper.auth.scheme",
        ConfigType.STRING,
        "sasl",
        "sasl proves the password by DIGEST-MD5; digest sends it, and needs TLS to be safe.",
        choices=("sasl", "digest"),
    ),
    broker_key(
        "zookeeper.ssl.client.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether brokers speak TLS to ZooKeeper.",
    ),
    broker_key(
        "zookeeper.ssl.keystore.type",
        ConfigType.STRING,
        "PEM",
        "The format of zookeeper.ssl.keystore.location.",
        choices=("PEM",),
    ),
    broker_key(
        "zookeeper.ssl.keystore.location",
        ConfigType.STRING,
        None,
        "A file with the private key, without a password, and the certificate chain that a broker "
        "shows to ZooKeeper; none shows no certificate.",
    ),
    broker_key(
        "zookeeper.ssl.truststore.type",
        ConfigType.STRING,
        "PEM",
        "The format of zookeeper.ssl.truststore.location.",
        choices=("PEM",),
    ),
    broker_key(
        "zookeeper.ssl.truststore.location",
        ConfigType.STRING,
        None,
        "A file with the authorities whose certificates of ZooKeeper servers are believed; none "
        "believes the machine's.",
    ),
    broker_key(
        "zookeeper.ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "HTTPS",
        "HTTPS: a ZooKeeper server's certificate must be for its host; empty: for any.",
        choices=("HTTPS", "https", ""),
    ),
    broker_key(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        30_000,
        "A follower that was not at its leader's end for so long is not in sync any more.",
        minimum=1,
    ),
    broker_key(
        "replica.fetch.max.bytes",
        ConfigType.INT,
        1024 * 1024,
        "What a follower takes of one partition at a time; a larger batch comes whole.",
        minimum=0,
    ),
    broker_key(
        "replica.fetch.response.max.bytes",
        ConfigType.INT,
        10 * 1024 * 1024,
        "What a follower takes of one leader at a time.",
        minimum=0,
    ),
    broker_key(
        "replica.fetch.min.bytes",
        ConfigType.INT,
        1,
        "A follower's fetch waits for so much.",
        minimum=1,
    ),
    broker_key(
        "replica.fetch.wait.max.ms",
        ConfigType.INT,
        500,
        "A follower's fetch waits no longer than this.",
        minimum=1,
    ),
    broker_key(
        "replica.socket.timeout.ms",
        ConfigType.INT,
        30_000,
        "A leader silent for so long, or replica.lag.time.max.ms, is connected to again.",
        minimum=1,
    ),
    broker_key(
        "replica.fetch.backoff.ms",
        ConfigType.INT,
        1000,
        "How long a follower rests when its leader cannot be reached.",
        minimum=0,
    ),
    broker_key(
        "leader.replication.throttled.rate",
        ConfigType.LONG,
        LONG_MAX,
        "Bytes per second that this broker sends, as leader, to throttled replicas that catch up.",
        minimum=0,
        dynamic=True,
    ),
    broker_key(
        "follower.replication.throttled.rate",
        ConfigType.LONG,
        LONG_MAX,
        "Bytes per second that this broker fetches for its throttled replicas that catch up.",
        minimum=0,
        dynamic=True,
    ),
    broker_key(
        "replica.selector.class",
        ConfigType.STRING,
        None,
        "RackAwareReplicaSelector sends consumers to a follower on their own rack (KIP-392).",
    ),
    broker_key(
        "controlled.shutdown.enable",
        ConfigType.BOOLEAN,
        True,
        "Move leaders to other brokers before stopping.",
    ),
    broker_key(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        True,
        "Give leadership back to the preferred replicas from time to time.",
    ),
    broker_key(
        "leader.imbalance.check.interval.seconds",
        ConfigType.LONG,
        300,
        "How often that is done.",
        minimum=1,
    ),
]
