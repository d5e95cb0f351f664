"""The head of a request that holds nothing unusual. Pure.

Rule 1: it reads a part of what HTTP/1.1 allows, and refuses the rest, which a whole parser judges:
a head that is read here has one meaning only. So each header is known and there once, the length of
the body is a plain number, and there is no other way to end the body, or to go on without it.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

MOST_HEAD_BYTES: Final = 4096

_START: Final = re.compile(rb"POST (/[A-Za-z0-9._/-]{1,300}) HTTP/1\.1")
_HEADER: Final = re.compile(rb"([A-Za-z-]{1,30}): ?([!-~](?:[ -~]*[!-~])?)")
_SIZE: Final = re.compile(r"[1-9][0-9]{0,7}")
_KNOWN: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    }
)


class PlainHead(NamedTuple):
    """A POST.

    Attributes:
        data: all of it, the empty line included.
        path: as it was sent; it has no query.
        headers: by names in lower case.
        body_bytes: how many bytes follow.
    """

    data: bytes
    path: bytes
    headers: Mapping[str, str]
    body_bytes: int


def read_head(data: bytes) -> PlainHead | None:
    """Return the head that data begins with; None if it is incomplete or not plain.

    >>> lines = [b"POST /topics/t HTTP/1.1", b"Host: h", b"Content-Length: 2", b"", b"{}"]
    >>> head = read_head(b"\\r\\n".join(lines))
    >>> head.path, head.headers, head.body_bytes
    (b'/topics/t', {'host': 'h', 'content-length': '2'}, 2)
    """
    end = data.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES)
    if end < 0:
        return None
    first, *lines = data[:end].split(b"\r\n")
    start = _START.fullmatch(first)
    if start is None:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            return None
        name = found[1].decode().lower()
        if name in headers or name not in _KNOWN:
            return None
        headers[name] = found[2].decode()
    size = headers.get("content-length", "")
    if (
        "host" not in headers
        or _SIZE.fullmatch(size) is None
        or headers.get("connection", "keep-alive").lower() != "keep-alive"
    ):
        return None
    return PlainHead(data[: end + 4], start[1], headers, int(size))
