"""Reads the body of a request within bounds of size, time and budget.

Rule 1: bytes count against one budget from their arrival until the request is answered.
Rule 2: a body must come at `LEAST_BYTES_PER_SECOND` after its first seconds, and within
`BODY_SECONDS`: a client that stops in the middle must not keep its share of the budget.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.gateway.http.asgi import Receive
from headrace.gateway.http.byte_budget import Share
from headrace.gateway.rest.error import Disconnected, Refused, RestError

MOST_BODY_BYTES: Final = 8 << 20
MOST_CONTROL_BYTES: Final = 1 << 20
"""Of requests that write no records."""

BODY_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 10.0
LEAST_BYTES_PER_SECOND: Final = 64 << 10


async def read_body(
    receive: Receive, headers: Mapping[str, str], limit: int, share: Share
) -> bytes:
    """Read a body, and take its bytes from a budget as they come.

    Raises:
        Refused: it is too large or too slow, or the proxy has no room for it.
        Disconnected: the client has gone.
    """
    if declared_size(headers) > limit:
        raise Refused(_too_large(limit))
    loop = asyncio.get_running_loop()
    chunks = []
    size = 0
    began = loop.time()
    while True:
        seconds = min(BODY_SECONDS, FIRST_SECONDS + size / LEAST_BYTES_PER_SECOND)
        try:
            async with asyncio.timeout_at(began + seconds):
                message = await receive()
        except TimeoutError:
            raise Refused(RestError(408, "The request came too slowly.")) from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise Refused(_too_large(limit))
        if chunk:
            if not share.take_now(len(chunk)):
                held_from = loop.time()
                await take(share, len(chunk))
                began += loop.time() - held_from  # the client did not make itself wait
            chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def take(share: Share, size: int) -> None:
    """Take bytes of a budget, and wait for them as long as a request may take.

    Raises:
        Refused: there were none in time.
    """
    if share.take_now(size):  # a timeout costs more than a small request
        return
    try:
        async with asyncio.timeout(BODY_SECONDS):
            await share.take(size)
    except TimeoutError:
        raise Refused(busy()) from None


def declared_size(headers: Mapping[str, str]) -> int:
    """Return Content-Length, or 0 for a body whose length is not declared."""
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def busy(why: str = "The proxy has more requests than it can hold.") -> RestError:
    return RestError(429, why, 42901)


def _too_large(limit: int) -> RestError:
    return RestError(413, f"A request of this kind has at most {limit} bytes.")
