"""The instances to which a registry with users sends writes on: they see the users' secrets.

Every client that may join the group of the instances can be elected, so an elected leader need not
be one to trust. `--peer URL` names those that are.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from headrace.model.error import ConfigError


def read_peers(urls: Iterable[str], *, tls: bool) -> frozenset[str]:
    """Return the addresses of trusted instances, in the form in which the election names them.

    Args:
        tls: whether this instance serves over TLS. Secrets that came over it go on over it.

    Raises:
        ConfigError: a text is no URL, or one without TLS where there must be.

    >>> sorted(read_peers(["https://Registry-2:8081/", "https://[::1]:8081"], tls=True))
    ['https://[::1]:8081', 'https://registry-2:8081']
    """
    return frozenset(_read_peer(each, tls) for each in urls)


def _read_peer(text: str, tls: bool) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if (
        not host
        or not port
        or parts.scheme not in ("http", "https")
        or parts.path not in ("", "/")
        or parts.query
        or parts.username is not None
    ):
        raise ConfigError(f"--peer {text} is no address: write https://HOST:PORT")
    if tls and parts.scheme != "https":
        raise ConfigError(
            f"--peer {text} would be sent users' secrets without TLS: serve TLS there too, and "
            "write https://HOST:PORT"
        )
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
