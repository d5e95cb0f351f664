"""Reads the body of a request within bounds of size, time and budget."""

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from headrace.gateway.http.asgi import Receive
from headrace.gateway.http.byte_budget import Share
from headrace.gateway.registry.error import RegistryError

MOST_BODY_BYTES: Final = 10 << 20
"""Ten times what a record of the topic holds by default."""

MOST_STRUCTURE_BYTES: Final = 256 << 10
"""Of JSON, each text counted as one: three bytes of it may take a hundred in memory."""

# A text without an end goes to the end, so that the search for the next one does not begin in it.
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_SECONDS: Final = 60.0
_FIRST_SECONDS: Final = 10.0
_LEAST_BYTES_PER_SECOND: Final = 64 << 10


class Refused(Exception):
    """The rest of the request is not read; its connection is closed."""

    def __init__(self, error: RegistryError) -> None:
        super().__init__(error)
        self.error = error


class Disconnected(Exception):
    """The client has gone before its request was complete."""


async def read_body(receive: Receive, headers: Mapping[str, str], share: Share) -> bytes:
    """Read a body, and take its bytes from a budget as they come.

    Raises:
        Refused: it is too large or too slow, or there is no room for it.
        Disconnected: the client has gone.
    """
    declared = headers.get("content-length", "0")
    if declared.isascii() and declared.isdigit() and int(declared[:19]) > MOST_BODY_BYTES:
        raise Refused(_too_large())
    loop = asyncio.get_running_loop()
    began = loop.time()
    chunks: list[bytes] = []
    size = 0
    while True:
        seconds = min(_SECONDS, _FIRST_SECONDS + size / _LEAST_BYTES_PER_SECOND)
        try:
            async with asyncio.timeout_at(began + seconds):
                message = await receive()
        except TimeoutError:
            raise Refused(RegistryError(408, "The request comes too slowly.")) from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > MOST_BODY_BYTES:
            raise Refused(_too_large())
        held_from = loop.time()
        try:
            async with asyncio.timeout(_SECONDS):
                await share.take(len(chunk))
        except TimeoutError:
            raise Refused(
                RegistryError(503, "The registry has more requests than it can hold.")
            ) from None
        began += loop.time() - held_from  # the client did not make itself wait
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


def has_much_structure(body: bytes) -> bool:
    """Return whether JSON has more than MOST_STRUCTURE_BYTES outside of its texts.

    It ends as soon as it has found so much, and keeps nothing.
    """
    structure = end = 0
    for match in _TEXT.finditer(body):
        structure += match.start() - end + 1
        end = match.end()
        if structure > MOST_STRUCTURE_BYTES:
            return True
    return structure + len(body) - end > MOST_STRUCTURE_BYTES


def _too_large() -> RegistryError:
    return RegistryError(413, f"A request has at most {MOST_BODY_BYTES} bytes.")
