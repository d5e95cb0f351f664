"""What keeps the pages of other sites away from a server without a login.

A browser on the same machine reaches servers on loopback, and runs the scripts of any site. Such a
script cannot choose these headers: `Host` is the name that the page was loaded from or called,
`Origin` and `Sec-Fetch-Site` say which site the script is from. Programs send no `Origin`.
"""

from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_OWN_SITE: Final = ("same-origin", "none")


class RequestHeaders(Protocol):
    """The headers of a request; names are case-insensitive."""

    def get(self, name: str, default: str = "", /) -> str: ...


def is_loopback_address(host: str) -> bool:
    """Return whether a server that listens on this host is reached from its own machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_loopback_name(host: str) -> bool:
    """Return whether a Host header names this machine. Another name that leads here is one that a
    foreign page has pointed at 127.0.0.1 (DNS rebinding)."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.lower() in _LOOPBACK_NAMES


def from_other_site(headers: RequestHeaders) -> bool:
    """Return whether a page of another site makes a browser send this request."""
    if headers.get("Sec-Fetch-Site", "none").lower() not in _OWN_SITE:
        return True
    origin = headers.get("Origin", "")
    return origin != "" and urlsplit(origin).netloc.lower() != headers.get("Host", "").lower()
