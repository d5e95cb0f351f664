"""The address that a command listens on, as `--listen` and `--monitor` take it."""

from headrace.client.address import Address
from headrace.model.error import ConfigError

_LOOPBACK = "127.0.0.1"


def parse_listen_address(text: str, option: str) -> Address:
    """Return the address; without a host it is on loopback, and port 0 is any free port.

    >>> parse_listen_address("[::1]:8080", "--listen")
    Address(host='::1', port=8080)

    Raises:
        ConfigError: the text is not written as host:port.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"{option} cannot be {text!r}: write it as host:port")
    return Address(host.strip("[]") or _LOOPBACK, int(port))
