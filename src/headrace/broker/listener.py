"""Where the broker listens and what it tells clients: Kafka's `NAME://HOST:PORT`."""

from dataclasses import dataclass

from headrace.model.error import ConfigError

# The security protocols a listener may be named after, and whether a client must authenticate.
PROTOCOLS = {"PLAINTEXT": False, "SASL_PLAINTEXT": True}

_WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - recognized, not bound to


@dataclass(frozen=True, slots=True)
class Listener:
    """One address. The name picks the advertised address and says whether to authenticate.

    >>> Listener.parse("PLAINTEXT://[::1]:9092")
    Listener(name='PLAINTEXT', host='::1', port=9092)
    """

    name: str
    host: str
    port: int

    @property
    def authenticates(self) -> bool:
        return PROTOCOLS.get(self.name, False)

    @property
    def wildcard(self) -> bool:
        """It stands for every address of the machine, so no client can be told to connect to it."""
        return self.host in _WILDCARDS

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"

    @classmethod
    def parse(cls, text: str) -> "Listener":
        """Read `NAME://HOST:PORT`; a bare `HOST:PORT` is PLAINTEXT.

        Raises:
            ConfigError: saying which part is missing.
        """
        name, separator, address = text.partition("://")
        if not separator:
            name, address = "PLAINTEXT", text
        if name not in PROTOCOLS:
            raise ConfigError(
                f"listener {text!r} has the protocol {name!r}: write one of {', '.join(PROTOCOLS)}"
            )
        host, port = split_address(address)
        return cls(name, host, port)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[IPv6]:PORT` or `:PORT` (every address of the machine).

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


def advertised(listeners: tuple[Listener, ...], texts: tuple[str, ...]) -> dict[str, Listener]:
    """What clients of each listener are told to connect to, by the listener's name.

    A listener that is not advertised on its own tells its own address; port 0 is filled in by the
    server once the kernel has chosen.
    """
    told = {listener.name: listener for listener in listeners}
    for text in texts:
        listener = Listener.parse(text)
        if listener.name not in told:
            raise ConfigError(
                f"advertised.listeners has {listener.name}, which is not among listeners"
            )
        if listener.wildcard:
            raise ConfigError(f"advertised.listeners has {text!r} without a host to connect to")
        told[listener.name] = listener
    return told
