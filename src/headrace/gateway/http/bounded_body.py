"""Reads the body of a request within bounds of size, time and budget.

Rule 1: bytes count against one budget from their arrival until the request is answered.
Rule 2: a body must come at `LEAST_BYTES_PER_SECOND` after its first seconds, and within
`BODY_SECONDS`: a client that stops in the middle must not keep its share of the budget. The time in
which the body waits for room does not count, because the client did not make itself wait.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Final

from headrace.gateway.http.asgi import Receive
from headrace.gateway.http.byte_budget import Share

BODY_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 10.0
LEAST_BYTES_PER_SECOND: Final = 64 << 10
_MOST_DIGITS: Final = 18


class BodyTooLarge(Exception):
    """A body has more bytes than it may have, or announces more."""


class BodyTooSlow(Exception):
    """A body does not come, or comes too slowly."""


class NoRoom(Exception):
    """The budget was used up by other requests for too long."""


class Disconnected(Exception):
    """The client has gone before its request was complete."""


async def read_bounded_body(
    receive: Receive, headers: Mapping[str, str], limit: int, share: Share
) -> bytes:
    """Read a body of at most `limit` bytes, and take them from a budget as they come.

    Raises:
        BodyTooLarge, BodyTooSlow, NoRoom: it is not read to its end; close the connection.
        Disconnected: the client has gone.
    """
    if declared_size(headers) > limit:
        raise BodyTooLarge
    loop = asyncio.get_running_loop()
    chunks: list[bytes] = []
    size = 0
    began = loop.time()
    while True:
        seconds = min(BODY_SECONDS, FIRST_SECONDS + size / LEAST_BYTES_PER_SECOND)
        try:
            async with asyncio.timeout_at(began + seconds):
                message = await receive()
        except TimeoutError:
            raise BodyTooSlow from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge
        if chunk:
            if not share.take_now(len(chunk)):
                held_from = loop.time()
                await take_bytes(share, len(chunk))
                began += loop.time() - held_from
            chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def take_bytes(share: Share, size: int) -> None:
    """Take bytes of a budget, and wait for them as long as a request may take.

    Raises:
        NoRoom: there were none in time.
    """
    if share.take_now(size):  # a timeout costs more than a small request
        return
    try:
        async with asyncio.timeout(BODY_SECONDS):
            await share.take(size)
    except TimeoutError:
        raise NoRoom from None


def declared_size(headers: Mapping[str, str]) -> int:
    """Return Content-Length, or 0 for a body whose length is not declared."""
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdigit()):
        return 0
    return int(text) if len(text) <= _MOST_DIGITS else sys.maxsize
