"""Reads the body of a request, within the bounds of `gateway.http.bounded_body`."""

from collections.abc import Mapping
from typing import Final

from headrace.gateway.http.asgi import Receive
from headrace.gateway.http.bounded_body import (
    BodyTooLarge,
    BodyTooSlow,
    NoRoom,
    read_bounded_body,
    take_bytes,
)
from headrace.gateway.http.byte_budget import Share
from headrace.gateway.rest.error import Refused, RestError

MOST_BODY_BYTES: Final = 8 << 20
MOST_CONTROL_BYTES: Final = 1 << 20
"""Of requests that write no records."""


async def read_body(
    receive: Receive, headers: Mapping[str, str], limit: int, share: Share
) -> bytes:
    """Read a body, and take its bytes from a budget as they come.

    Raises:
        Refused: it is too large or too slow, or the proxy has no room for it.
        Disconnected: the client has gone.
    """
    try:
        return await read_bounded_body(receive, headers, limit, share)
    except BodyTooLarge:
        raise Refused(
            RestError(413, f"A request of this kind has at most {limit} bytes.")
        ) from None
    except BodyTooSlow:
        raise Refused(RestError(408, "The request came too slowly.")) from None
    except NoRoom:
        raise Refused(busy()) from None


async def take(share: Share, size: int) -> None:
    """Take bytes of a budget, and wait for them as long as a request may take.

    Raises:
        Refused: there were none in time.
    """
    try:
        await take_bytes(share, size)
    except NoRoom:
        raise Refused(busy()) from None


def busy(why: str = "The proxy has more requests than it can hold.") -> RestError:
    return RestError(429, why, 42901)
