"""Where the broker listens, and the addresses it advertises: Kafka's `NAME://HOST:PORT`."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.error import ConfigError

# The security protocols there are, and whether a client must authenticate.
PROTOCOLS = {"PLAINTEXT": False, "SASL_PLAINTEXT": True, "SSL": False, "SASL_SSL": True}

_ENCRYPTED = ("SSL", "SASL_SSL")
_WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - recognized, not bound to


@dataclass(frozen=True, slots=True)
class Listener:
    """One address. The name picks the advertised address, the protocol says how clients speak.

    >>> Listener.parse("PLAINTEXT://[::1]:9092")
    Listener(name='PLAINTEXT', host='::1', port=9092, protocol='PLAINTEXT')
    >>> Listener.parse("INSIDE://:9093", {"INSIDE": "SASL_PLAINTEXT"}).authenticates
    True
    """

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    @property
    def authenticates(self) -> bool:
        return PROTOCOLS[self.protocol]

    @property
    def encrypted(self) -> bool:
        """Whether clients speak TLS on it."""
        return self.protocol in _ENCRYPTED

    @property
    def wildcard(self) -> bool:
        """Whether it stands for every address of the machine: no client can connect to that."""
        return self.host in _WILDCARDS

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"

    @classmethod
    def parse(cls, text: str, protocols: Mapping[str, str] | None = None) -> "Listener":
        """Read `NAME://HOST:PORT`; a bare `HOST:PORT` is PLAINTEXT.

        Args:
            protocols: the protocol of each name; a protocol's own name stands for itself.

        Raises:
            ConfigError: saying which part is missing.
        """
        name, separator, address = text.strip().partition("://")
        if not separator:
            name, address = "PLAINTEXT", name
        protocol = (protocols or {}).get(name, name)
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"listener {text!r} has the name {name!r}, which has no protocol: write one of "
                f"{', '.join(PROTOCOLS)}, or give it one in listener.security.protocol.map"
            )
        host, port = split_address(address)
        return cls(name, host, port, protocol)


def parse_protocols(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse listener.security.protocol.map: `NAME:PROTOCOL`, one per listener.

    >>> parse_protocols(("INSIDE:PLAINTEXT",))
    {'INSIDE': 'PLAINTEXT'}
    """
    protocols: dict[str, str] = {}
    for text in texts:
        name, _, protocol = text.partition(":")
        if not name or protocol not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map has {text!r}: write it as NAME:PROTOCOL, where "
                f"the protocol is one of {', '.join(PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def check_distinct(listeners: tuple[Listener, ...]) -> None:
    """Raise ConfigError unless each name occurs once, or once with an IPv4 and once with an IPv6
    address (KIP-797)."""
    seen: set[tuple[str, bool]] = set()
    for listener in listeners:
        kind = (listener.name, ":" in listener.host)
        if kind in seen:
            raise ConfigError(
                f"listeners has {listener.name} twice: give each a name of its own in "
                "listener.security.protocol.map"
            )
        seen.add(kind)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `[IPv6]:PORT` or `:PORT` (every address of the machine).

    >>> split_address("[::1]:9092")
    ('::1', 9092)
    """
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(f"address {address!r} has no port: write it as 127.0.0.1:9092")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise ConfigError(f"address {address!r} needs brackets: write it as [{host}]:{port}")
    return host, int(port)


def advertised(
    listeners: tuple[Listener, ...],
    texts: tuple[str, ...],
    protocols: Mapping[str, str] | None = None,
) -> dict[str, Listener]:
    """Return where clients of each listener connect, by the listener's name.

    A listener without an advertised address has its own; the server fills in port 0 once the kernel
    has chosen one.
    """
    addresses: dict[str, Listener] = {}
    for listener in listeners:
        addresses.setdefault(listener.name, listener)
    for text in texts:
        listener = Listener.parse(text, protocols)
        if listener.name not in addresses:
            raise ConfigError(
                f"advertised.listeners has {listener.name}, which is not among listeners"
            )
        if listener.wildcard:
            raise ConfigError(f"advertised.listeners has {text!r} without a host to connect to")
        addresses[listener.name] = listener
    return addresses
