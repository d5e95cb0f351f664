"""How a client connects: the keys of Kafka's client configuration that apply here.

Where Java's client and librdkafka have different keys for one thing, librdkafka's is used: it takes
the plain value (`sasl.username`, `ssl.ca.location`) where Java's takes a file in a Java format.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.client.address import Address, parse_addresses
from headrace.model.config import ConfigKey, ConfigTable, ConfigType
from headrace.model.error import ConfigError

DEFAULT_BROKERS = "127.0.0.1:9092"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _text(
    name: str, doc: str, default: str | None = None, choices: tuple[str, ...] = ()
) -> ConfigKey:
    return ConfigKey(name=name, type=ConfigType.STRING, default=default, doc=doc, choices=choices)


def _number(name: str, default: int, doc: str, minimum: int = 0) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ConfigType.INT,
        default=default,
        doc=doc,
        minimum=minimum,
        maximum=2**31 - 1,
    )


def _secret(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name=name, type=ConfigType.PASSWORD, default=None, doc=doc)


CLIENT_CONFIG = ConfigTable.of(
    "a client",
    [
        _text("bootstrap.servers", "Brokers to ask first, host:port,host:port.", DEFAULT_BROKERS),
        _text("client.id", "The client's name in a broker's logs and quotas.", "headrace"),
        _text("security.protocol", "How to connect.", "PLAINTEXT", choices=PROTOCOLS),
        _text("sasl.mechanism", "How to authenticate.", "PLAIN", choices=MECHANISMS),
        _text("sasl.username", "Who to authenticate as."),
        _secret("sasl.password", "With which password."),
        _text("ssl.ca.location", "A PEM file with the authorities to trust; else the system's."),
        _text("ssl.certificate.location", "A PEM file with our own certificate."),
        _text("ssl.key.location", "A PEM file with its key."),
        _secret("ssl.key.password", "The key's password."),
        _text(
            "ssl.endpoint.identification.algorithm",
            "Whether the broker's certificate must name its host.",
            "https",
            choices=("https", "none"),
        ),
        _number("request.timeout.ms", 30_000, "How long to wait for one answer.", 1),
        _number("default.api.timeout.ms", 60_000, "How long to try again before giving up.", 1),
        _number("socket.connection.setup.timeout.ms", 10_000, "How long connecting may take.", 1),
        _number("metadata.max.age.ms", 300_000, "How often to look for new partitions.", 1),
        _number("retry.backoff.ms", 100, "How long to wait before a second try."),
        _number("fetch.max.wait.ms", 500, "How long a broker may wait for records."),
        _number("fetch.max.bytes", 52_428_800, "How much one answer may hold.", 1),
        _number(
            "max.partition.fetch.bytes", 8_388_608, "How much of it one partition may give.", 1
        ),
    ],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How connections are encrypted. Its text leaves the password out."""

    ca_file: str | None
    certificate_file: str | None
    key_file: str | None
    key_password: str | None = field(repr=False)
    check_host: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How the client authenticates itself. Its text leaves the password out."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Every key of `CLIENT_CONFIG`, typed.

    Attributes:
        reuses_connections: take connections from, and leave them to, other clients of this process
            that have it, too; see `headrace.client.network.idle_connection`.

    >>> ClientSettings.of({"bootstrap.servers": "10.0.0.1:9093"}).bootstrap
    [Address(host='10.0.0.1', port=9093)]
    """

    bootstrap: list[Address]
    client_id: str
    tls: TlsSettings | None
    sasl: SaslSettings | None
    request_timeout_ms: int
    api_timeout_ms: int
    connect_timeout_ms: int
    metadata_max_age_ms: int
    retry_backoff_ms: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    partition_max_bytes: int
    reuses_connections: bool = False

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "ClientSettings":
        """Parse what a user wrote.

        Raises:
            ConfigError: an unknown key, or a value that its key cannot have.
        """
        values = CLIENT_CONFIG.defaults() | CLIENT_CONFIG.parse(texts)

        def text(name: str) -> str:
            return str(values[name])

        def optional(name: str) -> str | None:
            return None if values[name] is None else text(name)

        def number(name: str) -> int:
            return int(text(name))

        protocol = text("security.protocol")
        tls = TlsSettings(
            ca_file=optional("ssl.ca.location"),
            certificate_file=optional("ssl.certificate.location"),
            key_file=optional("ssl.key.location"),
            key_password=optional("ssl.key.password"),
            check_host=text("ssl.endpoint.identification.algorithm") == "https",
        )
        return cls(
            bootstrap=parse_addresses(text("bootstrap.servers")),
            client_id=text("client.id"),
            tls=tls if protocol.endswith("SSL") else None,
            sasl=_sasl(text("sasl.mechanism"), optional("sasl.username"), optional("sasl.password"))
            if protocol.startswith("SASL")
            else None,
            request_timeout_ms=number("request.timeout.ms"),
            api_timeout_ms=number("default.api.timeout.ms"),
            connect_timeout_ms=number("socket.connection.setup.timeout.ms"),
            metadata_max_age_ms=number("metadata.max.age.ms"),
            retry_backoff_ms=number("retry.backoff.ms"),
            fetch_max_wait_ms=number("fetch.max.wait.ms"),
            fetch_max_bytes=number("fetch.max.bytes"),
            partition_max_bytes=number("max.partition.fetch.bytes"),
        )


def _sasl(mechanism: str, username: str | None, password: str | None) -> SaslSettings:
    if username is None or password is None:
        raise ConfigError("SASL needs a name and a password: set sasl.username and sasl.password")
    return SaslSettings(mechanism=mechanism, username=username, password=password)
