"""Authentication, TLS and authorization."""

from headrace.model.broker.key import broker_key
from headrace.model.config import ConfigType

SECURITY_KEYS = [
    broker_key(
        "sasl.enabled.mechanisms",
        ConfigType.LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "How clients of a SASL_PLAINTEXT listener may prove who they are; PLAIN needs "
        "headrace.sasl.plain.users.file.",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
    broker_key(
        "inter.broker.listener.name",
        ConfigType.STRING,
        None,
        "The listener through which brokers talk to each other; without it the first one of "
        "security.inter.broker.protocol.",
    ),
    broker_key(
        "security.inter.broker.protocol",
        ConfigType.STRING,
        "PLAINTEXT",
        "What brokers speak with each other, where inter.broker.listener.name does not say.",
        choices=("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"),
    ),
    broker_key(
        "sasl.mechanism.inter.broker.protocol",
        ConfigType.STRING,
        "SCRAM-SHA-512",
        "How brokers log in to each other, if they must.",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
    broker_key(
        "headrace.inter.broker.user.file",
        ConfigType.STRING,
        None,
        "A file with one line user=password: as whom brokers log in to each other.",
    ),
    broker_key(
        "headrace.sasl.plain.users.file",
        ConfigType.STRING,
        None,
        "A file with the users of PLAIN, a line user=password each; read again when it changes.",
    ),
    broker_key(
        "ssl.keystore.type",
        ConfigType.STRING,
        "PEM",
        "The format of ssl.keystore.location (KIP-651).",
        choices=("PEM",),
    ),
    broker_key(
        "ssl.keystore.location",
        ConfigType.STRING,
        None,
        "A file with the broker's private key, without a password, and its certificate chain, for "
        "SSL and SASL_SSL listeners.",
    ),
    broker_key(
        "ssl.truststore.type",
        ConfigType.STRING,
        "PEM",
        "The format of ssl.truststore.location (KIP-651).",
        choices=("PEM",),
    ),
    broker_key(
        "ssl.truststore.location",
        ConfigType.STRING,
        None,
        "A file with the authorities whose certificates of clients and other brokers are believed.",
    ),
    broker_key(
        "ssl.client.auth",
        ConfigType.STRING,
        "none",
        "Whether clients of SSL listeners show certificates; their principals are the subjects.",
        choices=("none", "requested", "required"),
    ),
    broker_key(
        "ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "https",
        "https: another broker's certificate must be for its host; empty: for any.",
        choices=("https", ""),
    ),
    broker_key(
        "connection.failed.authentication.delay.ms",
        ConfigType.INT,
        100,
        "How long a failed authentication waits for its answer, so that guessing is slow.",
        minimum=0,
    ),
    broker_key(
        "connections.max.reauth.ms",
        ConfigType.LONG,
        0,
        "How long a client stays authenticated (KIP-368); 0 is for as long as it is connected.",
        minimum=0,
    ),
    broker_key(
        "authorizer.class.name",
        ConfigType.STRING,
        "",
        "Kafka's StandardAuthorizer checks every request against the ACLs; empty lets all pass.",
        choices=("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ),
    broker_key(
        "super.users",
        ConfigType.STRING,
        "",
        "Principals that may do everything, separated by semicolons: User:anna;User:bob.",
    ),
    broker_key(
        "allow.everyone.if.no.acl.found",
        ConfigType.BOOLEAN,
        False,
        "Whether a resource without any ACL is open to every client or closed to all.",
    ),
]
