"""Reads the body of a request within bounds of size, time and budget.

Rule 1: without the id of a known key, a client gets no more than `UNSIGNED_BYTES` read.
Rule 2: a body must come at `LEAST_BYTES_PER_SECOND` after its first seconds: what has come of it is
taken from the budget, and a client that stops in the middle must not keep it.
"""

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from headrace.gateway.http.asgi import Receive
from headrace.gateway.http.byte_budget import Share
from headrace.gateway.kinesis.access.signature import check_credential
from headrace.gateway.kinesis.error import ServiceError

MOST_BODY_BYTES: Final = 15 << 20
"""10 MiB of data are 13.4 MiB in base64; keys and names come on top."""

UNSIGNED_BYTES: Final = 64 << 10
"""Enough for a clear error to a client with a wrong key; its large requests are cut off."""

BODY_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 10.0
LEAST_BYTES_PER_SECOND: Final = 64 << 10


class Refused(Exception):
    """The rest of the request is not read; its connection is closed."""

    def __init__(self, error: ServiceError) -> None:
        super().__init__(error)
        self.error = error


class Disconnected(Exception):
    """The client has gone before its request was complete."""


async def read_body(
    receive: Receive, headers: Mapping[str, str], keys: Mapping[str, str] | None, share: Share
) -> bytes:
    """Read a body, and take its bytes from a budget as they come.

    Args:
        keys: secrets by access key id; None if every signature is accepted.

    Raises:
        Refused: it is too large or too slow, or its client has none of the keys.
        Disconnected: the client has gone.
    """
    limit, error = _limit(headers, keys)
    if _declared_size(headers) > limit:
        raise Refused(error)
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
            raise Refused(_too_slow()) from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise Refused(error)
        held_from = loop.time()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                await share.take(len(chunk))
        except TimeoutError:
            raise Refused(busy()) from None
        began += loop.time() - held_from  # the client did not make itself wait
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


def _limit(headers: Mapping[str, str], keys: Mapping[str, str] | None) -> tuple[int, ServiceError]:
    """Return how large a body may be, and what a client is sent whose body is larger."""
    if keys is not None:
        try:
            check_credential(headers, keys, time.time())
        except ServiceError as refusal:
            return UNSIGNED_BYTES, refusal
    return MOST_BODY_BYTES, _too_large()


def _declared_size(headers: Mapping[str, str]) -> int:
    """Return Content-Length, or 0 for a body whose length is not declared."""
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _too_large() -> ServiceError:
    return ServiceError(
        "RequestEntityTooLargeException",
        f"A request has at most {MOST_BODY_BYTES} bytes.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    )


def _too_slow() -> ServiceError:
    return ServiceError(
        "RequestTimeoutException",
        f"A request must arrive at {LEAST_BYTES_PER_SECOND} bytes per second or faster, and within "
        f"{BODY_SECONDS:.0f} seconds.",
        HTTPStatus.REQUEST_TIMEOUT,
    )


def busy() -> ServiceError:
    return ServiceError(
        "ServiceUnavailableException",
        "The gateway has more requests than it can hold.",
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
