"""Reads the body of a request, within the bounds of `gateway.http.bounded_body`.

Without the id of a known key, a client gets no more than `UNSIGNED_BYTES` read.
"""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from headrace.gateway.http.asgi import Receive
from headrace.gateway.http.bounded_body import (
    BODY_SECONDS,
    LEAST_BYTES_PER_SECOND,
    BodyTooLarge,
    BodyTooSlow,
    NoRoom,
    read_bounded_body,
)
from headrace.gateway.http.byte_budget import Share
from headrace.gateway.kinesis.access.signature import check_credential
from headrace.gateway.kinesis.error import ServiceError

MOST_BODY_BYTES: Final = 15 << 20
"""10 MiB of data are 13.4 MiB in base64; keys and names come on top."""

UNSIGNED_BYTES: Final = 64 << 10
"""Enough for a clear error to a client with a wrong key; its large requests are cut off."""


class Refused(Exception):
    """The rest of the request is not read; its connection is closed."""

    def __init__(self, error: ServiceError) -> None:
        super().__init__(error)
        self.error = error


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
    try:
        return await read_bounded_body(receive, headers, limit, share)
    except BodyTooLarge:
        raise Refused(error) from None
    except BodyTooSlow:
        raise Refused(_too_slow()) from None
    except NoRoom:
        raise Refused(busy()) from None


def _limit(headers: Mapping[str, str], keys: Mapping[str, str] | None) -> tuple[int, ServiceError]:
    """Return how large a body may be, and what a client is sent whose body is larger."""
    if keys is not None:
        try:
            check_credential(headers, keys, time.time())
        except ServiceError as refusal:
            return UNSIGNED_BYTES, refusal
    return MOST_BODY_BYTES, _too_large()


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
