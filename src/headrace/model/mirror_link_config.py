"""A link to another Kafka cluster, from which brokers here copy mirror topics (decision 0040).

Names are those of Kafka's clients. Certificates are PEM texts, not files: a link is the same on
every broker.
"""

from collections.abc import Collection, Mapping

from headrace.model.config import ConfigKey, ConfigTable, ConfigType, ConfigValue
from headrace.model.error import ConfigError

BOOTSTRAP_SERVERS = "bootstrap.servers"
SECURITY_PROTOCOL = "security.protocol"
SASL_MECHANISM = "sasl.mechanism"
SASL_USERNAME = "sasl.username"
SASL_PASSWORD = "sasl.password"  # noqa: S105 - the name of a key
CERTIFICATES = "ssl.truststore.certificates"
IDENTIFICATION = "ssl.endpoint.identification.algorithm"

MIRROR_LINK_CONFIG = ConfigTable.of(
    "a mirror link",
    [
        ConfigKey(
            name=BOOTSTRAP_SERVERS,
            type=ConfigType.LIST,
            default=(),
            doc="HOST:PORT of some brokers of the source, separated by commas.",
        ),
        ConfigKey(
            name=SECURITY_PROTOCOL,
            type=ConfigType.STRING,
            default="PLAINTEXT",
            doc="How the source's listener is reached.",
            choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        ),
        ConfigKey(
            name=SASL_MECHANISM,
            type=ConfigType.STRING,
            default="PLAIN",
            doc="How to log in at the source, with SASL_PLAINTEXT or SASL_SSL.",
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        ),
        ConfigKey(
            name=SASL_USERNAME,
            type=ConfigType.STRING,
            default="",
            doc="The user at the source; it must be allowed to read the topics.",
        ),
        ConfigKey(
            name=SASL_PASSWORD,
            type=ConfigType.PASSWORD,
            default=None,
            doc="That user's password.",
        ),
        ConfigKey(
            name=CERTIFICATES,
            type=ConfigType.STRING,
            default="",
            doc="The authorities to trust, as PEM text; empty means those of the machine.",
        ),
        ConfigKey(
            name=IDENTIFICATION,
            type=ConfigType.STRING,
            default="https",
            doc="'https' compares the source's host names with its certificates; empty does not.",
            choices=("https", ""),
        ),
    ],
)


def check_mirror_link(values: Mapping[str, ConfigValue]) -> None:
    """Check what a table cannot: addresses, and that a login is complete.

    Raises:
        ConfigError: a link that cannot work.
    """
    if not values:
        # The link goes.
        return
    source_addresses(values.get(BOOTSTRAP_SERVERS))
    if str(values.get(SECURITY_PROTOCOL, "")).startswith("SASL") and not (
        values.get(SASL_USERNAME) and values.get(SASL_PASSWORD)
    ):
        raise ConfigError(
            f"{SECURITY_PROTOCOL} asks for a login: write {SASL_USERNAME} and {SASL_PASSWORD}"
        )


_TO_WHOM = (BOOTSTRAP_SERVERS, SECURITY_PROTOCOL, SASL_MECHANISM, CERTIFICATES, IDENTIFICATION)


def check_password_given(before: Mapping[str, str], changed: Collection[str]) -> None:
    """Check that the one who changes to whom brokers show a link's password knows the password.

    Raises:
        ConfigError: the password would be sent to a server that the one who set it did not name.
    """
    if SASL_PASSWORD in before and SASL_PASSWORD not in changed:
        named = [key for key in _TO_WHOM if key in changed]
        if named:
            raise ConfigError(f"{named[0]} changes only together with {SASL_PASSWORD}")


def source_addresses(servers: ConfigValue) -> list[tuple[str, int]]:
    """Return the hosts and ports of a link's source.

    >>> source_addresses(("east:9092", "[::1]:9093"))
    [('east', 9092), ('::1', 9093)]
    """
    addresses: list[tuple[str, int]] = []
    for server in servers if isinstance(servers, tuple) else ():
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ConfigError(f"{BOOTSTRAP_SERVERS} cannot hold {server!r}: write HOST:PORT")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not addresses:
        raise ConfigError(f"a mirror link needs {BOOTSTRAP_SERVERS}: write HOST:PORT of its source")
    return addresses
