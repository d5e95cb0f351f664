"""Where a broker listens."""

from typing import NamedTuple

from headrace.model.error import ConfigError

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """A host and a port. Prints as users write it, with brackets around an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    """Parse a `bootstrap.servers` list, separated by commas.

    >>> [str(address) for address in parse_addresses("one:9093, two,[::1]:9094")]
    ['one:9093', 'two:9092', '[::1]:9094']

    Raises:
        ConfigError: names the part of the list that is wrong.
    """
    parts = [part.strip() for part in text.split(",")]
    addresses = [_parse(part) for part in parts if part]
    if not addresses:
        raise ConfigError("bootstrap.servers is empty: write it as host:port,host:port")
    return addresses


def _parse(text: str) -> Address:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise _wrong(text)
        port = rest[1:]
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host:
        raise _wrong(text)
    if not port:
        return Address(host, DEFAULT_PORT)
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise _wrong(text)
    return Address(host, int(port))


def _wrong(text: str) -> ConfigError:
    return ConfigError(f"{text!r} is not a broker's address: write it as host:port")
